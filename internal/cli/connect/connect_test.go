package connect_test

import (
	"net"
	"syscall"
	"testing"

	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go/internal/cli/connect"
)

// A connection that never came about is final; one that broke is not.
func TestOnlyAnUnreachedAddressIsFinal(t *testing.T) {
	t.Parallel()
	for op, want := range map[string]bool{"dial": false, "read": true} {
		err := &smithyhttp.RequestSendError{Err: &net.OpError{Op: op, Net: "tcp", Err: syscall.ECONNRESET}}
		if got := connect.IsRetried(err); got != want {
			t.Errorf("%s: retried %v, want %v", op, got, want)
		}
	}
}
