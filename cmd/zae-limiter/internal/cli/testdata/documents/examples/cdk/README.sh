GOOS=linux GOARCH=arm64 go build -o zae-limiter ./cmd/zae-limiter
