package customresource

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/internal/calls"
)

// The values of an answer's Status.
const (
	success = "SUCCESS"
	failure = "FAILED"
)

// CloudFormation refuses an answer of more than 4,096 bytes. The answer's other fields
// have bounds of CloudFormation's own; maxReason leaves room for them.
const (
	maxAnswer = 4096
	maxReason = 1024
)

// Tries to send an answer, and the pause before the second, which doubles.
const (
	sendAttempts = 5
	sendPause    = 200 * time.Millisecond
)

// An answer is what CloudFormation reads at the ResponseURL.
type answer struct {
	Status             string
	Reason             string            `json:",omitempty"`
	PhysicalResourceID string            `json:"PhysicalResourceId"`
	StackID            string            `json:"StackId"`
	RequestID          string            `json:"RequestId"`
	LogicalResourceID  string            `json:"LogicalResourceId"`
	Data               map[string]string `json:",omitempty"`
}

// encode writes the answer within CloudFormation's bound. It shortens the reason, and
// leaves out the data if that is not enough.
func (a answer) encode() ([]byte, error) {
	a.Reason = shorten(a.Reason, maxReason)
	text, err := json.Marshal(a)
	if err == nil && len(text) > maxAnswer {
		a.Data = nil
		text, err = json.Marshal(a)
	}
	for most := maxReason / 2; err == nil && len(text) > maxAnswer && most > 0; most /= 2 {
		a.Reason = shorten(a.Reason, most)
		text, err = json.Marshal(a)
	}
	return text, err
}

// shorten cuts a string to a number of bytes, at the end of a character.
func shorten(s string, most int) string {
	const mark = " … (see the function's log)"
	if len(s) <= most {
		return s
	}
	cut := max(0, most-len(mark))
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}

// send puts the answer to the address of an event. It tries again after a failure that
// may pass.
func (h *Handler) send(ctx context.Context, address string, a *answer) error {
	if a.Status == failure {
		h.options.Logger.ErrorContext(ctx, "limits not applied", "request_id", a.RequestID, "logical_resource_id", a.LogicalResourceID, "error", a.Reason)
	}
	text, err := a.encode()
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	pause := sendPause
	for attempt := 1; ; attempt++ {
		lasting, err := h.put(ctx, address, text)
		if err == nil {
			return nil
		}
		err = fmt.Errorf("send the answer to CloudFormation: %w", err)
		if lasting || attempt == sendAttempts || calls.Sleep(ctx, nil, pause) != nil {
			return err
		}
		pause *= 2
	}
}

// put sends the answer once. lasting says that another try would fail, too.
func (h *Handler) put(ctx context.Context, address string, text []byte) (lasting bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, address, bytes.NewReader(text))
	if err != nil {
		return true, withoutAddress(err)
	}
	// The address is signed for a request without a content type.
	r.Header.Set("Content-Type", "")
	response, err := h.options.Client.Do(r)
	if err != nil {
		return false, withoutAddress(err)
	}
	if err := response.Body.Close(); err != nil {
		return false, err
	}
	switch code := response.StatusCode; {
	case code < http.StatusMultipleChoices:
		return false, nil
	case code >= http.StatusInternalServerError || code == http.StatusTooManyRequests:
		return false, errors.New(response.Status)
	}
	return true, errors.New(response.Status)
}

// withoutAddress removes the address from an error, because everybody who has the address
// can answer for the stack.
func withoutAddress(err error) error {
	if wrong, ok := errors.AsType[*url.Error](err); ok {
		return wrong.Err
	}
	return err
}
