zae-limiter loadtest run hot --local :memory: --duration 10s --output json > b.json
