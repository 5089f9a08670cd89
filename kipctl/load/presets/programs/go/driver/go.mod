module driver

go 1.25.0
