cat > limits.yaml <<EOF
namespace: prod
system:
  limits:
    rpm: {capacity: 500}
    tpm: {capacity: 100000}
EOF
cat > requests.jsonl <<EOF
{"time":"2026-01-02T03:04:05Z","api_key":"key-1","model":"gpt-4","usage":{"total_tokens":500}}
{"time":"2026-01-02T03:04:06Z","api_key":"key-1","model":"gpt-4","usage":{"total_tokens":700}}
EOF
cat <<'EOF' | gzip > access.log.1.gz
192.0.2.1 - alice [02/Jan/2026:03:04:05 +0000] "GET /v1/models HTTP/1.1" 200 512
192.0.2.2 - bob [02/Jan/2026:03:04:06 +0000] "GET /v1/models HTTP/1.1" 200 512
EOF
cat > requests.yaml <<EOF
namespace: prod
system:
  limits:
    rpm: {capacity: 500}
EOF
cat > anthropic.jsonl <<EOF
{"time":"2026-01-02T03:04:05Z","entity":"key-1","resource":"claude","usage":{"input_tokens":10,"output_tokens":5}}
EOF
cat > litellm.jsonl <<EOF
{"time":"2026-01-02T03:04:05Z","entity":"key-1","resource":"claude","spend":0.00123}
EOF
cat > dollars.yaml <<EOF
namespace: prod
system:
  limits:
    usd_micro: {capacity: 1000000}
EOF
