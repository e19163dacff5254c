for table in zae-limiter my-table; do
  zae-limiter table create --table $table
  zae-limiter namespace register prod --table $table
done
cat > wrong.yaml <<EOF
namespace: prod
resources:
  gpt-4:
    limits:
      rpm: {capacity: -5}
EOF
export CI_JOB_URL=https://ci.example.com/jobs/1
cat > requests.jsonl <<EOF
{"time":"2026-01-02T03:04:05Z","entity":"key-1","resource":"gpt-4","usage":{"total_tokens":500}}
EOF
