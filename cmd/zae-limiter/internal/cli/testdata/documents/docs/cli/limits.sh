zae-limiter namespace register prod
cat > limits.yaml <<EOF
namespace: prod
resources:
  gpt-4:
    limits:
      rpm: {capacity: 500}
EOF
cat > requests.jsonl <<EOF
{"time":"2026-01-02T03:04:05Z","entity":"key-1","resource":"gpt-4","tokens":500}
EOF
