package httpapi_test

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
)

// step is a call of the page, or the answer to the call before it.
var step = regexp.MustCompile("(?s)curl [^`]*?(/v1/[a-z/-]+)[^`]*?-d '(.*?)'|```json\n(.*?)\n```")

// The calls of the page for users are answered as the page says.
func TestThePageOfTheService(t *testing.T) {
	inBubble(t, decide.Policy{Fallback: []limiter.Limit{limiter.PerMinute("rpm", 3)}}, func(s *service) {
		s.follow("service.md", 3, 2, func(path, body string) []byte { return s.post(path, body).Body.Bytes() })
	})
}

// So are those of the page for operators.
func TestThePageOfAdministration(t *testing.T) {
	inOffice(t, func(s *service) {
		s.follow("administration.md", 4, 1, func(path, body string) []byte {
			return s.must(strings.TrimPrefix(path, "/v1/admin/"), body).Body.Bytes()
		})
	})
}

// follow makes the calls of a page, and compares their answers with those that the page has.
func (s *service) follow(page string, wantCalls, wantAnswers int, call func(path, body string) []byte) {
	s.Helper()
	text, err := os.ReadFile("../../../../../docs/" + page)
	if err != nil {
		s.Fatal(err)
	}
	var last []byte
	calls, answers := 0, 0
	for _, m := range step.FindAllStringSubmatch(string(text), -1) {
		if m[1] != "" {
			last = call(m[1], m[2])
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
	if calls != wantCalls || answers != wantAnswers {
		s.Errorf("the page has %d calls and %d answers", calls, answers)
	}
}
