zae-limiter table delete --table limits --confirm limits
zae-limiter deploy --name limits
zae-limiter loadtest show llm-gateway > mine.yaml
for side in main branch result; do
  zae-limiter loadtest run simple --local :memory: --duration 10s --output json > $side.json
done
