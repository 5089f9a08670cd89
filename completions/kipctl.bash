# Completion of kipctl for bash.
# Generated from the commands by `make generate`; do not edit.
_kipctl() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command=kipctl word words= options=
    # bash takes --option=value apart at the "=".
    if [[ $current == "=" ]]; then
        current=
    elif [[ $previous == "=" ]]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$command $word" in
            'kipctl reassign' | 'kipctl demo' | 'kipctl lab' | 'kipctl lab up' | 'kipctl lab status' | 'kipctl lab down' | 'kipctl lab stop' | 'kipctl lab start' | 'kipctl lab restart' | 'kipctl lab pause' | 'kipctl lab resume' | 'kipctl lab logs' | 'kipctl elect' | 'kipctl elect preferred' | 'kipctl elect unclean' | 'kipctl inspect' | 'kipctl inspect brokers' | 'kipctl inspect replica-selection' | 'kipctl inspect metadata' | 'kipctl inspect leaders' | 'kipctl inspect hints' | 'kipctl perf' | 'kipctl perf consume' | 'kipctl perf e2e' | 'kipctl perf metadata' | 'kipctl perf produce' | 'kipctl request-log' | 'kipctl request-log on' | 'kipctl request-log off' | 'kipctl request-log status' | 'kipctl analyze' | 'kipctl analyze runs' | 'kipctl analyze request-log' | 'kipctl runs' | 'kipctl runs list' | 'kipctl runs show' | 'kipctl runs compare' | 'kipctl runs export' | 'kipctl runs remove') command+=" $word" ;;
        esac
    done
    case "$command $previous" in
        'kipctl reassign --plan') compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        'kipctl reassign --verify') compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        'kipctl reassign --topic') return ;;
        'kipctl reassign --timeout') return ;;
        'kipctl reassign --bootstrap-server') return ;;
        'kipctl reassign -o' | 'kipctl reassign --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl demo -o' | 'kipctl demo --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl lab up --name') return ;;
        'kipctl lab up --brokers') return ;;
        'kipctl lab up --controllers') return ;;
        'kipctl lab up --racks') return ;;
        'kipctl lab up --kafka-version') return ;;
        'kipctl lab up --kafka-home') compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        'kipctl lab up --config') return ;;
        'kipctl lab up --port') return ;;
        'kipctl lab up -o' | 'kipctl lab up --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl lab status --name') return ;;
        'kipctl lab status -o' | 'kipctl lab status --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl lab down --name') return ;;
        'kipctl lab stop --name') return ;;
        'kipctl lab stop -o' | 'kipctl lab stop --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl lab start --name') return ;;
        'kipctl lab start -o' | 'kipctl lab start --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl lab restart --name') return ;;
        'kipctl lab restart -o' | 'kipctl lab restart --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl lab pause --name') return ;;
        'kipctl lab pause -o' | 'kipctl lab pause --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl lab resume --name') return ;;
        'kipctl lab resume -o' | 'kipctl lab resume --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl lab logs --name') return ;;
        'kipctl lab logs --lines') return ;;
        'kipctl elect preferred --topic') return ;;
        'kipctl elect preferred --partition') return ;;
        'kipctl elect preferred --json-file') compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        'kipctl elect preferred --timeout') return ;;
        'kipctl elect preferred --bootstrap-server') return ;;
        'kipctl elect preferred -o' | 'kipctl elect preferred --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl elect unclean --topic') return ;;
        'kipctl elect unclean --partition') return ;;
        'kipctl elect unclean --json-file') compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        'kipctl elect unclean --timeout') return ;;
        'kipctl elect unclean --bootstrap-server') return ;;
        'kipctl elect unclean -o' | 'kipctl elect unclean --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl inspect brokers --metrics-url') return ;;
        'kipctl inspect brokers --bootstrap-server') return ;;
        'kipctl inspect brokers -o' | 'kipctl inspect brokers --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl inspect replica-selection --topic') return ;;
        'kipctl inspect replica-selection --client-rack') return ;;
        'kipctl inspect replica-selection --explain') return ;;
        'kipctl inspect replica-selection --for') return ;;
        'kipctl inspect replica-selection --rate-over') return ;;
        'kipctl inspect replica-selection --price-per-gb') return ;;
        'kipctl inspect replica-selection --require-local') return ;;
        'kipctl inspect replica-selection --client') COMPREPLY=($(compgen -W librdkafka -- "$current")); return ;;
        'kipctl inspect replica-selection --bootstrap-server') return ;;
        'kipctl inspect replica-selection -o' | 'kipctl inspect replica-selection --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl inspect metadata --topic') return ;;
        'kipctl inspect metadata --moves') return ;;
        'kipctl inspect metadata --bootstrap-server') return ;;
        'kipctl inspect metadata -o' | 'kipctl inspect metadata --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl inspect leaders --topic') return ;;
        'kipctl inspect leaders --bootstrap-server') return ;;
        'kipctl inspect leaders -o' | 'kipctl inspect leaders --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl inspect hints --topic') return ;;
        'kipctl inspect hints --bootstrap-server') return ;;
        'kipctl inspect hints -o' | 'kipctl inspect hints --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl perf consume --topic') return ;;
        'kipctl perf consume --num-records' | 'kipctl perf consume --messages') return ;;
        'kipctl perf consume --partition') return ;;
        'kipctl perf consume --offset') return ;;
        'kipctl perf consume --client-rack') return ;;
        'kipctl perf consume --fetch-size') return ;;
        'kipctl perf consume --socket-buffer-size') return ;;
        'kipctl perf consume --timeout') return ;;
        'kipctl perf consume --group') return ;;
        'kipctl perf consume --command-property') return ;;
        'kipctl perf consume --command-config' | 'kipctl perf consume --consumer.config') compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        'kipctl perf consume --reporting-interval') return ;;
        'kipctl perf consume --leader-discovery') COMPREPLY=($(compgen -W 'kip951 refresh baseline' -- "$current")); return ;;
        'kipctl perf consume --during') return ;;
        'kipctl perf consume --every') return ;;
        'kipctl perf consume --count') return ;;
        'kipctl perf consume --record') return ;;
        'kipctl perf consume --workers') return ;;
        'kipctl perf consume --master') return ;;
        'kipctl perf consume --bootstrap-server') return ;;
        'kipctl perf consume -o' | 'kipctl perf consume --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl perf e2e --num-records') return ;;
        'kipctl perf e2e --throughput') return ;;
        'kipctl perf e2e --record-size') return ;;
        'kipctl perf e2e --producer-acks') return ;;
        'kipctl perf e2e --topic') return ;;
        'kipctl perf e2e --partitions') return ;;
        'kipctl perf e2e --replication-factor') return ;;
        'kipctl perf e2e --warmup-records') return ;;
        'kipctl perf e2e --client-rack') return ;;
        'kipctl perf e2e --producer-property') return ;;
        'kipctl perf e2e --consumer-property') return ;;
        'kipctl perf e2e --command-config') compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        'kipctl perf e2e --timeout') return ;;
        'kipctl perf e2e --leader-discovery') COMPREPLY=($(compgen -W 'kip951 refresh baseline' -- "$current")); return ;;
        'kipctl perf e2e --during') return ;;
        'kipctl perf e2e --every') return ;;
        'kipctl perf e2e --count') return ;;
        'kipctl perf e2e --record') return ;;
        'kipctl perf e2e --workers') return ;;
        'kipctl perf e2e --master') return ;;
        'kipctl perf e2e --bootstrap-server') return ;;
        'kipctl perf e2e -o' | 'kipctl perf e2e --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl perf metadata --topics') return ;;
        'kipctl perf metadata --partitions') return ;;
        'kipctl perf metadata --throughput') return ;;
        'kipctl perf metadata --seconds') return ;;
        'kipctl perf metadata --record-size') return ;;
        'kipctl perf metadata --phase') COMPREPLY=($(compgen -W 'startup steady leader-changes idle-return' -- "$current")); return ;;
        'kipctl perf metadata --client') COMPREPLY=($(compgen -W 'probe librdkafka' -- "$current")); return ;;
        'kipctl perf metadata --policy') COMPREPLY=($(compgen -W 'kip526 legacy' -- "$current")); return ;;
        'kipctl perf metadata --command-property') return ;;
        'kipctl perf metadata --metrics-url') return ;;
        'kipctl perf metadata --bootstrap-server') return ;;
        'kipctl perf metadata -o' | 'kipctl perf metadata --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl perf produce --num-records') return ;;
        'kipctl perf produce --throughput') return ;;
        'kipctl perf produce --record-size') return ;;
        'kipctl perf produce --payload-file') compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        'kipctl perf produce --payload-delimiter') return ;;
        'kipctl perf produce --topic') return ;;
        'kipctl perf produce --partitions') return ;;
        'kipctl perf produce --replication-factor') return ;;
        'kipctl perf produce --warmup-records') return ;;
        'kipctl perf produce --command-property' | 'kipctl perf produce --producer-props') return ;;
        'kipctl perf produce --command-config' | 'kipctl perf produce --producer.config') compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        'kipctl perf produce --reporting-interval') return ;;
        'kipctl perf produce --leader-discovery') COMPREPLY=($(compgen -W 'kip951 refresh baseline' -- "$current")); return ;;
        'kipctl perf produce --during') return ;;
        'kipctl perf produce --every') return ;;
        'kipctl perf produce --count') return ;;
        'kipctl perf produce --record') return ;;
        'kipctl perf produce --workers') return ;;
        'kipctl perf produce --master') return ;;
        'kipctl perf produce --bootstrap-server') return ;;
        'kipctl perf produce -o' | 'kipctl perf produce --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl request-log on --broker') return ;;
        'kipctl request-log on --for') return ;;
        'kipctl request-log on --bootstrap-server') return ;;
        'kipctl request-log on -o' | 'kipctl request-log on --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl request-log off --broker') return ;;
        'kipctl request-log off --bootstrap-server') return ;;
        'kipctl request-log off -o' | 'kipctl request-log off --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl request-log status --broker') return ;;
        'kipctl request-log status --bootstrap-server') return ;;
        'kipctl request-log status -o' | 'kipctl request-log status --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl analyze runs --by') return ;;
        'kipctl analyze runs --window') return ;;
        'kipctl analyze runs --master') return ;;
        'kipctl analyze runs --since') return ;;
        'kipctl analyze runs --until') return ;;
        'kipctl analyze runs --save') return ;;
        'kipctl analyze runs -o' | 'kipctl analyze runs --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl analyze request-log --by') return ;;
        'kipctl analyze request-log --timezone') return ;;
        'kipctl analyze request-log --master') return ;;
        'kipctl analyze request-log --since') return ;;
        'kipctl analyze request-log --until') return ;;
        'kipctl analyze request-log --save') return ;;
        'kipctl analyze request-log -o' | 'kipctl analyze request-log --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl runs list -o' | 'kipctl runs list --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl runs show -o' | 'kipctl runs show --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl runs compare --fail-if') return ;;
        'kipctl runs compare --master') return ;;
        'kipctl runs compare -o' | 'kipctl runs compare --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl runs export --format') COMPREPLY=($(compgen -W 'archive csv' -- "$current")); return ;;
        'kipctl runs export -o' | 'kipctl runs export --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
        'kipctl runs remove -o' | 'kipctl runs remove --output') COMPREPLY=($(compgen -W 'auto table plain json csv' -- "$current")); return ;;
    esac
    case "$command" in
        kipctl) words='reassign demo lab elect inspect perf request-log analyze runs' options='--debug --version --help' ;;
        'kipctl reassign') words='' options='--rotate --plan --rollback --list --verify --cancel --topic --all-topics --dry-run --measure --yes --timeout --bootstrap-server --output --help' ;;
        'kipctl demo') words='' options='--output --help' ;;
        'kipctl lab') words='up status down stop start restart pause resume logs' options=--help ;;
        'kipctl lab up') words='' options='--name --brokers --controllers --racks --kafka-version --kafka-home --config --port --request-log --metrics --output --help' ;;
        'kipctl lab status') words='' options='--name --output --help' ;;
        'kipctl lab down') words='' options='--name --help' ;;
        'kipctl lab stop') words='' options='--name --kill --output --help' ;;
        'kipctl lab start') words='' options='--name --output --help' ;;
        'kipctl lab restart') words='' options='--name --output --help' ;;
        'kipctl lab pause') words='' options='--name --output --help' ;;
        'kipctl lab resume') words='' options='--name --output --help' ;;
        'kipctl lab logs') words='' options='--name --follow --lines --help' ;;
        'kipctl elect') words='preferred unclean' options=--help ;;
        'kipctl elect preferred') words='' options='--topic --partition --all --json-file --dry-run --timeout --bootstrap-server --output --help' ;;
        'kipctl elect unclean') words='' options='--topic --partition --all --json-file --dry-run --yes --timeout --bootstrap-server --output --help' ;;
        'kipctl inspect') words='brokers replica-selection metadata leaders hints' options=--help ;;
        'kipctl inspect brokers') words='' options='--metrics-url --bootstrap-server --output --help' ;;
        'kipctl inspect replica-selection') words='' options='--topic --client-rack --explain --watch --for --rate-over --price-per-gb --require-local --client --bootstrap-server --output --help' ;;
        'kipctl inspect metadata') words='' options='--topic --measure-convergence --moves --bootstrap-server --output --help' ;;
        'kipctl inspect leaders') words='' options='--topic --bootstrap-server --output --help' ;;
        'kipctl inspect hints') words='' options='--topic --bootstrap-server --output --help' ;;
        'kipctl perf') words='consume e2e metadata produce' options=--help ;;
        'kipctl perf consume') words='' options='--topic --num-records --messages --partition --offset --from-latest --client-rack --fetch-size --socket-buffer-size --timeout --group --command-property --command-config --consumer.config --print-metrics --show-detailed-stats --reporting-interval --hide-header --leader-discovery --during --every --count --record --workers --master --bootstrap-server --output --help' ;;
        'kipctl perf e2e') words='' options='--num-records --throughput --record-size --producer-acks --topic --partitions --replication-factor --warmup-records --client-rack --producer-property --consumer-property --command-config --timeout --print-metrics --leader-discovery --during --every --count --record --force --workers --master --bootstrap-server --output --help' ;;
        'kipctl perf metadata') words='' options='--topics --partitions --throughput --seconds --record-size --phase --client --policy --command-property --metrics-url --bootstrap-server --output --help' ;;
        'kipctl perf produce') words='' options='--num-records --throughput --record-size --payload-file --payload-delimiter --topic --partitions --replication-factor --warmup-records --command-property --producer-props --command-config --producer.config --print-metrics --reporting-interval --leader-discovery --during --every --count --record --force --workers --master --bootstrap-server --output --help' ;;
        'kipctl request-log') words='on off status' options=--help ;;
        'kipctl request-log on') words='' options='--broker --for --bootstrap-server --output --help' ;;
        'kipctl request-log off') words='' options='--broker --bootstrap-server --output --help' ;;
        'kipctl request-log status') words='' options='--broker --bootstrap-server --output --help' ;;
        'kipctl analyze') words='runs request-log' options=--help ;;
        'kipctl analyze runs') words='' options='--by --window --master --since --until --save --output --help' ;;
        'kipctl analyze request-log') words='' options='--by --timezone --master --since --until --save --output --help' ;;
        'kipctl runs') words='list show compare export remove' options=--help ;;
        'kipctl runs list') words='' options='--output --help' ;;
        'kipctl runs show') words='' options='--output --help' ;;
        'kipctl runs compare') words='' options='--fail-if --master --output --help' ;;
        'kipctl runs export') words='' options='--format --output --help'; [[ $current == -* ]] || { compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return; } ;;
        'kipctl runs remove') words='' options='--yes --output --help' ;;
    esac
    if [[ $current == -* || -z $words ]]; then
        words=$options
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _kipctl kipctl
