package connect

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

// IsRetried reports whether the clients send a request again after an error.
func IsRetried(err error) bool {
	return retry.NewStandard(isUnreachedFinal, isUnansweredFinal).IsErrorRetryable(err)
}

// AnswerTimeout is how long the clients wait for the beginning of an answer.
func AnswerTimeout() time.Duration { return httpClient(0).GetTransport().ResponseHeaderTimeout }
