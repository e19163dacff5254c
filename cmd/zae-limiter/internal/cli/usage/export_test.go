package usage

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

// Plot draws a page on some columns.
func Plot(columns int, q *usage.Query, page *usage.Page) string {
	var w strings.Builder
	plot(&w, columns, q, page)
	return w.String()
}
