//! rskafka at work, with its own settings. It has the arguments that `python/driver.py` tells of;
//! a rack and an age of Metadata it cannot be told.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::time::{interval, sleep, timeout};

/// For what is under way at the end.
const PATIENCE: Duration = Duration::from_secs(30);
/// It ends by itself after that, should nobody close its stdin.
const MOST: Duration = Duration::from_secs(900);
/// Its reads fail at once where a broker names no leader: the loop is its caller's.
const AFTER_A_FAILED_READ: Duration = Duration::from_millis(100);
/// Records of a call.
const MOST_AT_ONCE: usize = 1000;

#[derive(Default)]
struct Counted {
    sent: u64,
    acknowledged: u64,
    failed: u64,
    read: u64,
    errors: BTreeMap<String, u64>,
}

type Shared = Arc<Mutex<Counted>>;

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [role, bootstrap, topic, partitions, rate, _acks, client_id, _rack, _metadata_ms] = &words[..]
    else {
        panic!("usage: PROGRAM ROLE BOOTSTRAP TOPIC PARTITIONS RATE ACKS CLIENT_ID RACK METADATA_MS");
    };
    let partitions: i32 = partitions.parse().expect("PARTITIONS is a number");
    let rate: f64 = rate.parse().expect("RATE is a number");
    let counted = Shared::default();
    let target = Arc::new(Mutex::new(topic.clone()));

    if role != "producer" {
        let client = connected(bootstrap, format!("{client_id}-reader")).await;
        for number in 0..partitions {
            let partition = Arc::new(partition_of(&client, topic, number).await);
            tokio::spawn(read(partition, counted.clone()));
        }
    }
    let over = async {
        match role.as_str() {
            "producer" => take_topics(target.clone()).await,
            "both" => drop(tokio::task::spawn_blocking(closed_stdin).await),
            _ => std::future::pending().await,
        }
    };
    let writing = async {
        if role == "consumer" {
            return std::future::pending().await;
        }
        let client = connected(bootstrap, client_id.clone()).await;
        produce(client, target.clone(), partitions, rate, counted.clone()).await
    };
    tokio::select! {
        () = over => (),
        () = writing => (),
        () = sleep(MOST) => (),
    }
    settled(&counted).await;
    report(&counted);
    std::process::exit(0); // a thread that waits for stdin would keep it
}

async fn connected(bootstrap: &str, client_id: String) -> Client {
    let servers = bootstrap.split(',').map(str::to_owned).collect();
    let client = ClientBuilder::new(servers).client_id(client_id).build().await;
    client.expect("a broker answers")
}

async fn partition_of(client: &Client, topic: &str, number: i32) -> PartitionClient {
    let partition = client.partition_client(topic, number, UnknownTopicHandling::Retry).await;
    partition.expect("the partition has a leader")
}

/// Each line of stdin is another topic to send to; it goes on when stdin is closed.
async fn take_topics(target: Arc<Mutex<String>>) {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        *target.lock().unwrap() = line.trim().to_owned();
    }
    std::future::pending().await
}

fn closed_stdin() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Sends records when their time has come: one call at a time for each partition, with all of its
/// records that have become due meanwhile. Each value is another number.
async fn produce(
    client: Client,
    target: Arc<Mutex<String>>,
    partitions: i32,
    rate: f64,
    counted: Shared,
) {
    let mut known: HashMap<(String, i32), UnboundedSender<Record>> = HashMap::new();
    let mut due = interval(Duration::from_secs_f64(1.0 / rate));
    for number in 0u64.. {
        due.tick().await;
        let place = (target.lock().unwrap().clone(), (number % partitions as u64) as i32);
        if !known.contains_key(&place) {
            let partition = partition_of(&client, &place.0, place.1).await;
            let (sender, records) = unbounded_channel();
            tokio::spawn(send(partition, records, 2 * partitions as u64, counted.clone()));
            known.insert(place.clone(), sender);
        }
        counted.lock().unwrap().sent += 1;
        let record = Record {
            key: None,
            value: Some(format!("{number:<100}").into_bytes()),
            headers: BTreeMap::new(),
            timestamp: chrono::Utc::now(),
        };
        known[&place].send(record).expect("its task lives");
    }
}

async fn send(
    partition: PartitionClient,
    mut records: UnboundedReceiver<Record>,
    ready: u64,
    counted: Shared,
) {
    let mut batch = Vec::new();
    loop {
        let many = records.recv_many(&mut batch, MOST_AT_ONCE).await as u64;
        if many == 0 {
            return;
        }
        let sent = partition.produce(std::mem::take(&mut batch), Compression::NoCompression).await;
        let mut counted = counted.lock().unwrap();
        match sent {
            Ok(_) => {
                let before = counted.acknowledged;
                counted.acknowledged += many;
                if before < ready && counted.acknowledged >= ready {
                    println!("ready");
                }
            }
            Err(error) => {
                counted.failed += many;
                *counted.errors.entry(error.to_string()).or_default() += many;
            }
        }
    }
}

/// An offset that is out of range is its caller's to choose anew: it is the earliest.
async fn read(partition: Arc<PartitionClient>, counted: Shared) {
    let mut offset = partition.get_offset(OffsetAt::Earliest).await.unwrap_or(0);
    loop {
        match partition.fetch_records(offset, 1..1_000_000, 500).await {
            Ok((records, _)) => {
                counted.lock().unwrap().read += records.len() as u64;
                if let Some(last) = records.last() {
                    offset = last.offset + 1;
                }
            }
            Err(error) => {
                let said = format!("reading: {error}");
                *counted.lock().unwrap().errors.entry(said).or_default() += 1;
                if is_out_of_range(&error) {
                    let earliest = partition.get_offset(OffsetAt::Earliest).await;
                    offset = earliest.unwrap_or(offset);
                }
                sleep(AFTER_A_FAILED_READ).await;
            }
        }
    }
}

fn is_out_of_range(error: &Error) -> bool {
    matches!(error, Error::ServerError { protocol_error: ProtocolError::OffsetOutOfRange, .. })
}

async fn settled(counted: &Shared) {
    let all = async {
        loop {
            let now = counted.lock().unwrap();
            if now.acknowledged + now.failed == now.sent {
                return;
            }
            drop(now);
            sleep(Duration::from_millis(20)).await;
        }
    };
    let _ = timeout(PATIENCE, all).await;
}

fn report(counted: &Shared) {
    let counted = counted.lock().unwrap();
    let line = serde_json::json!({
        "version": "0.6.0",
        "sent": counted.sent,
        "acknowledged": counted.acknowledged,
        "failed": counted.failed,
        "read": counted.read,
        "errors": counted.errors,
    });
    println!("{line}");
}
