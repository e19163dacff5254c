zae-limiter namespace register prod
cat > limits.yaml <<EOF
namespace: prod
resources:
  gpt-4:
    limits:
      rpm: {capacity: 500}
EOF
