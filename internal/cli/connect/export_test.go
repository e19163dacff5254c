package connect

import "github.com/aws/aws-sdk-go-v2/aws/retry"

// IsRetried reports whether the clients send a request again after an error.
func IsRetried(err error) bool { return retry.NewStandard(isUnreachedFinal).IsErrorRetryable(err) }

// Load reads the configuration for an endpoint.
var Load = load
