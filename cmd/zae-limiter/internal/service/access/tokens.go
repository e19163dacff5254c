package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
)

// minToken is the length of the shortest token: 16 characters of a random text resist guesses.
const minToken = 16

// nameWord begins the name of who has a token.
const nameWord = "name="

// Tokens are the bearer tokens of a file.
type Tokens struct {
	sums [][sha256.Size]byte
	ids  []Identity
}

// TokenSource reads tokens from a file.
func TokenSource(file string) hot.Source[*Tokens] {
	return hot.Source[*Tokens]{
		Read: func() (hot.Files, error) { return hot.ReadFiles(file) },
		Parse: func(files hot.Files) (*Tokens, error) {
			return ParseTokens(string(files[file]))
		},
	}
}

// ParseTokens reads a token from each line, and its roles after it, each as [ParseGrant] reads it. A
// token without roles is that of a caller. name=NAME is who has the token, in audit events; without it, that
// is token- and the beginning of the token's sum. Empty lines and those that begin with # count for
// nothing. An error names the line, and never its text.
func ParseTokens(text string) (*Tokens, error) {
	t := &Tokens{}
	err := eachLine(text, "token", func(line string) error {
		words := strings.Fields(line)
		if err := checkSecret(words[0], minToken); err != nil {
			return err
		}
		sum := sha256.Sum256([]byte(words[0]))
		if t.index(sum) >= 0 {
			return errors.New("repeats a token: give all of its roles on one line")
		}
		id, err := parseIdentity(words[1:], sum)
		if err != nil {
			return err
		}
		t.sums, t.ids = append(t.sums, sum), append(t.ids, id)
		return nil
	})
	return t, err
}

// parseIdentity reads what a line gives to the bearer of the token before it, which has a sum.
func parseIdentity(words []string, sum [sha256.Size]byte) (id Identity, err error) {
	for _, word := range words {
		if name, ok := strings.CutPrefix(word, nameWord); ok {
			if id.Name != "" || !isName(name) {
				return id, errors.New("has no valid name after the token: give name=NAME once, of up to 64 letters, digits and any of ._:@-")
			}
			id.Name = name
			continue
		}
		g, err := ParseGrant(word)
		if err != nil {
			return id, errors.New("has no valid role after the token: give reader, caller or operator, with @NAMESPACE,... if not for all")
		}
		id.Grants = append(id.Grants, g)
	}
	if len(id.Grants) == 0 {
		id.Grants = []Grant{{Role: Caller}}
	}
	if id.Name == "" {
		const first = 4 // bytes, which tell tokens apart and help nobody to guess them
		id.Name = "token-" + hex.EncodeToString(sum[:first])
	}
	return id, nil
}

// isName reports whether audit events can name the bearer of a token so.
func isName(name string) bool {
	const marks, longest = "._:@-", 64
	return name != "" && len(name) <= longest && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(marks, r)
	})
}

// ParseSecrets reads secrets of a kind, one on each line, with so many characters at least. Empty lines
// and those that begin with # count for nothing. An error names the line, and never its text.
func ParseSecrets(text string, least int, kind string) (secrets [][]byte, err error) {
	err = eachLine(text, kind, func(line string) error {
		secrets = append(secrets, []byte(line))
		return checkSecret(line, least)
	})
	return secrets, err
}

// eachLine calls f for each line with something of a kind. There must be one.
func eachLine(text, kind string, f func(line string) error) error {
	n, found := 0, false
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := f(line); err != nil {
			return fmt.Errorf("line %d has no valid %s, or more: it %w", n, kind, err)
		}
		found = true
	}
	if !found {
		return fmt.Errorf("there is no %s: give one on each line", kind)
	}
	return nil
}

// checkSecret checks the characters of a secret.
func checkSecret(secret string, least int) error {
	if len(secret) < least || strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("needs at least %d characters of ASCII without spaces", least)
	}
	return nil
}

// find finds what a token gives, in a time that does not depend on the token.
func (t *Tokens) find(token string) (Identity, bool) {
	at := t.index(sha256.Sum256([]byte(token)))
	if at < 0 {
		return Identity{}, false
	}
	return t.ids[at], true
}

// index is where a sum is, and -1 if it is nowhere. It compares all of them.
func (t *Tokens) index(sum [sha256.Size]byte) int {
	at := -1
	for i := range t.sums {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], t.sums[i][:]), i, at)
	}
	return at
}
