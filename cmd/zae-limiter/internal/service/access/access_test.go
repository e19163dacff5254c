package access_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/access"
)

// A file of tokens that is none is refused, and the error does not repeat it.
func TestParseTokens(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                     "there is no token",
		"# nothing\n":                          "there is no token",
		"0123456789abcdef\nsecret\n":           "line 2",
		"0123456789 secret":                    "line 1",
		"0123456789abcdef secret":              "no valid role",
		"0123456789abcdef caller@":             "no valid role",
		"0123456789abcdef caller@UPPER CASE":   "no valid role",
		"0123456789secret\n0123456789secret":   "line 2 has no valid token, or more: it repeats",
		"\n\n0123456789abcdefsecret\xc3\xa9\n": "line 3",
		"0123456789abcdef name=":               "no valid name",
		"0123456789abcdef name=a\u00e9secret":  "no valid name",
		"0123456789abcdef name=a name=secret":  "no valid name",
	} {
		_, err := access.ParseTokens(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "UPPER") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A role suffices for its actions, in its namespaces. Nothing else is admitted.
func TestRoles(t *testing.T) {
	t.Parallel()
	tokens, err := access.ParseTokens(`
		bare-0123456789abc
		read-0123456789abc reader
		call-0123456789abc caller@shop,bank
		both-0123456789abc caller@bank reader
		main-0123456789abc operator
		bank-0123456789abc operator@bank
		shop-0123456789abc operator@shop,bank
	`)
	if err != nil {
		t.Fatal(err)
	}
	guard := &access.Guard{Namespace: "shop", Tokens: func() *access.Tokens { return tokens }}
	for token, may := range map[string]string{"bare": "DL", "read": "LOS", "call": "DL", "both": "LOS", "main": "DLOPMST", "bank": "", "shop": "DLOPM"} {
		for letter, do := range map[string]access.Action{"D": access.Decide, "L": access.Look, "O": access.Observe, "P": access.Profile, "M": access.Manage, "S": access.Survey, "T": access.Own} {
			want := error(nil)
			if !strings.Contains(may, letter) {
				want = access.ErrForbidden
			}
			if _, err := guard.Admit(t.Context(), "bearer "+token+"-0123456789abc", do); !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("%s, %s: %v, want %v", token, letter, err, want)
			}
		}
	}
	for _, field := range []string{"", "Bearer", "Bearer ", "Basic bare-0123456789abc", "bare-0123456789abc", "Bearer bare-0123456789ab", "Bearer bare-0123456789abcd"} {
		if _, err := guard.Admit(t.Context(), field, access.Look); !errors.Is(err, access.ErrUnproven) {
			t.Errorf("%q: %v", field, err)
		}
	}
}

// Options of an issuer that would admit too much are refused.
func TestNewIssuer(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*access.IssuerOptions){
		"https":    func(o *access.IssuerOptions) { o.URL = "http://id.example" },
		"audience": func(o *access.IssuerOptions) { o.Audience = "" },
		"claim":    func(o *access.IssuerOptions) { o.Claim = "" },
		"role":     func(o *access.IssuerOptions) { o.Roles = nil },
	} {
		o := newProvider(t).options()
		spoil(&o)
		if _, err := access.NewIssuer(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The file of tokens names their holders. A token without a name has the beginning of its sum.
func TestNamesOfTokens(t *testing.T) {
	t.Parallel()
	tokens, err := access.ParseTokens("main-0123456789abc operator name=on-call_2@example.com\nbare-0123456789abc operator\nbare-0123456789abd operator\n")
	if err != nil {
		t.Fatal(err)
	}
	guard := &access.Guard{Namespace: "shop", Tokens: func() *access.Tokens { return tokens }}
	var names []string
	for _, token := range []string{"main-0123456789abc", "bare-0123456789abc", "bare-0123456789abd"} {
		name, err := guard.Admit(t.Context(), "Bearer "+token, access.Manage)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if names[0] != "on-call_2@example.com" || !strings.HasPrefix(names[1], "token-") || names[1] == names[2] {
		t.Errorf("the names are %q", names)
	}
}
