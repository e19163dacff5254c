package httpapi_test

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
)

// step is a call of the page, or the answer to the call before it.
var step = regexp.MustCompile("(?s)curl [^`]*?(/v1/\\w+)[^`]*?-d '(.*?)'|```json\n(.*?)\n```")

// The calls of the page for users are answered as the page says.
func TestThePageOfTheService(t *testing.T) {
	text, err := os.ReadFile("../../../../../docs/service.md")
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, decide.Policy{Fallback: []limiter.Limit{limiter.PerMinute("rpm", 3)}}, func(s *service) {
		var last []byte
		calls, answers := 0, 0
		for _, m := range step.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "" {
				last = s.post(m[1], m[2]).Body.Bytes()
				calls++
				continue
			}
			answers++
			var got, want any
			if err := json.Unmarshal(last, &got); err != nil {
				s.Fatal(err)
			}
			if err := json.Unmarshal([]byte(m[3]), &want); err != nil {
				s.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				s.Errorf("the answer is\n%s\nand the page says\n%s", last, m[3])
			}
		}
		if calls != 2 || answers != 2 {
			s.Errorf("the page has %d calls and %d answers", calls, answers)
		}
	})
}
