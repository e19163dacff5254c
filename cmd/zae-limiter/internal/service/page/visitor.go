package page

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/access"
)

// Names of cookies. They hold for the pages only, and end with the browser.
const (
	tokenCookie = "zael-token"
	csrfCookie  = "zael-csrf"
)

const (
	// maxForm is the size of the largest form, in bytes.
	maxForm = 64 << 10
	// maxToken is the length of the longest token that browsers keep in a cookie.
	maxToken = 2800
)

// A visitor is who asks for a page.
type visitor struct {
	Name string
	// Observes and Manages are what the visitor may do besides seeing the balances of an entity.
	Observes, Manages bool
	// SignedIn says that a cookie has the token.
	SignedIn bool
}

// may reports whether a visitor may do something.
func (v *visitor) may(do access.Action) bool {
	switch do {
	case access.Look:
		return true
	case access.Observe:
		return v.Observes
	case access.Manage:
		return v.Manages
	default:
		return false
	}
}

// admit finds out who visits, and what they may do. A token is in the field Authorization, from a proxy for
// instance, or in the cookie of the form.
func (h *handler) admit(r *http.Request) (v visitor, err error) {
	if h.Guard == nil {
		return visitor{Observes: true, Manages: true}, nil
	}
	field := r.Header.Get("Authorization")
	if c, none := r.Cookie(tokenCookie); field == "" && none == nil {
		if token, wrong := base64.RawURLEncoding.DecodeString(c.Value); wrong == nil {
			field, v.SignedIn = "Bearer "+string(token), true
		}
	}
	if v.Name, err = h.Guard.Admit(r.Context(), field, access.Look); err != nil {
		return v, err
	}
	_, observes := h.Guard.Admit(r.Context(), field, access.Observe)
	_, manages := h.Guard.Admit(r.Context(), field, access.Manage)
	v.Observes, v.Manages = observes == nil, manages == nil
	return v, nil
}

// A signIn is a page that asks for a token.
type signIn struct{ Error string }

// turnAway asks for a token, or says why the one that was given does not do.
func (h *handler) turnAway(w http.ResponseWriter, r *http.Request, err error) {
	f := frame{Title: "Sign in", Body: signIn{}}
	_, unsigned := r.Cookie(tokenCookie)
	f.Visitor.SignedIn = unsigned == nil
	switch {
	case errors.Is(err, access.ErrForbidden):
		f.Body = signIn{"The token has no role in the namespace of this service."}
		h.render(w, r, http.StatusForbidden, "login.html", f)
	case errors.Is(err, access.ErrUndecided):
		w.Header().Set("Retry-After", "10")
		h.say(w, r, f.Visitor, http.StatusServiceUnavailable, notice{Text: err.Error()})
	default:
		if f.Visitor.SignedIn || r.Header.Get("Authorization") != "" {
			f.Body = signIn{"The token is not valid."}
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		h.render(w, r, http.StatusUnauthorized, "login.html", f)
	}
}

// login keeps a token in a cookie. The browser sends it to the pages only, scripts cannot read it, and other
// sites cannot make the browser send it.
func (h *handler) login(w http.ResponseWriter, r *http.Request) {
	if !isOwn(w, r) {
		h.say(w, r, visitor{}, http.StatusForbidden, notice{Text: "the form is not of this page, or too old: open the page again"})
		return
	}
	token := strings.TrimSpace(r.PostFormValue("token"))
	if len(token) > maxToken {
		f := frame{Title: "Sign in", Body: signIn{"The token is too long for a cookie: let a proxy send it in the field Authorization."}}
		h.render(w, r, http.StatusBadRequest, "login.html", f)
		return
	}
	setCookie(w, r, tokenCookie, base64.RawURLEncoding.EncodeToString([]byte(token)), 0)
	http.Redirect(w, r, Root, http.StatusSeeOther)
}

// logout forgets the token.
func (h *handler) logout(w http.ResponseWriter, r *http.Request) {
	if !isOwn(w, r) {
		h.say(w, r, visitor{}, http.StatusForbidden, notice{Text: "the form is not of this page, or too old: open the page again"})
		return
	}
	setCookie(w, r, tokenCookie, "", -1)
	http.Redirect(w, r, Root, http.StatusSeeOther)
}

func setCookie(w http.ResponseWriter, r *http.Request, name, value string, age int) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: Root, MaxAge: age, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
}

// csrfOf is the text that forms of a browser have, and that its cookie has, too. Another site can make a
// browser send a form, and it can neither read nor set the cookie.
func csrfOf(w http.ResponseWriter, r *http.Request) string {
	if c, err := r.Cookie(csrfCookie); err == nil && len(c.Value) == len(rand.Text()) {
		return c.Value
	}
	text := rand.Text()
	setCookie(w, r, csrfCookie, text, 0)
	return text
}

// isOwn reports whether a form comes from a page of this service: the browser does not say that another site
// has sent it, and it has the text of the cookie. It reads the form.
func isOwn(w http.ResponseWriter, r *http.Request) bool {
	if new(http.CrossOriginProtection).Check(r) != nil {
		return false
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if r.ParseForm() != nil {
		return false
	}
	c, err := r.Cookie(csrfCookie)
	given := r.PostForm["csrf"]
	return err == nil && len(given) == 1 && len(c.Value) == len(rand.Text()) && subtle.ConstantTimeCompare([]byte(c.Value), []byte(given[0])) == 1
}
