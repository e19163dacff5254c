zae-limiter loadtest show simple > load.yaml
