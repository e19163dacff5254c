package page

import (
	"net/http"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/refusals"
)

// A refused is a page of the last refusals.
type refused struct {
	refusals.Query

	Rows    []refusals.Refusal
	Size    int
	Process string
}

// refused serves the last refusals of this process.
func (h *handler) refused(w http.ResponseWriter, r *http.Request, v visitor) {
	q := r.URL.Query()
	to := refused{Query: refusals.Query{ID: q.Get("id"), Entity: q.Get("entity"), Resource: q.Get("resource"), Limit: q.Get("limit")}, Size: refusals.Size, Process: h.Refusals.Process()}
	to.Rows = h.Refusals.Last(to.Query, rowsOfPage)
	h.render(w, r, http.StatusOK, "refusals.html", frame{Title: "Refusals", Visitor: v, Body: &to})
}
