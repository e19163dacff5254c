package expr_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
)

// TestProjections compares the projections with the answers of DynamoDB Local 2.6.1.
func TestProjections(t *testing.T) {
	t.Parallel()
	for _, tc := range projectionTable {
		p, err := expr.ParseProjection(tc.text, envOf(tc.text))
		got := refused
		if err != nil {
			checkError(t, err)
		} else {
			item := fixture()
			got = showItem(p.Apply(item), "=")
			if diff := cmp.Diff(showItem(fixture(), "="), showItem(item, "=")); diff != "" {
				t.Errorf("%s changed the item (-want +got):\n%s", tc.text, diff)
			}
		}
		if got != tc.want {
			t.Errorf("%s: got %s, %v; want %s", tc.text, got, err, tc.want)
		}
	}
}

func TestProjectionTopLevel(t *testing.T) {
	t.Parallel()
	const text = "m.x, #a, m.y, l[0]"
	p, err := expr.ParseProjection(text, envOf(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"m", "a", "l"}, p.TopLevel()); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}

var projectionTable = []struct{ text, want string }{
	{"n", "n=5"},
	{"m.x", "m={x:1}"},
	{"m.q", ""},
	{"m.x, m.y", "m={x:1 y:\"q\"}"},
	{"l[0], l[2]", "l=[1 3]"},
	{"l[2],l[0]", "l=[1 3]"},
	{"l[9]", ""},
	{"m, m.x", refused},
	{"n, n", refused},
	{"n.x", ""},
	{"m.x, m[0]", refused},
	{"nope", ""},
	{"name", refused},
	{"n,", refused},
	{"", refused},
	{"m.z[0]", "m={z:[\"a\"]}"},
	{"pk, s", "pk=\"a\" s=\"héllo\""},
	{"(n)", refused},
	{"n s", refused},
	{"size(s)", refused},
	{":n", refused},
	{"#n", "n=5"},
	{"pk,l[1].x", "pk=\"a\""},
	{"m.x,l[1]", "l=[2] m={x:1}"},
	{"m.z, m.x", "m={x:1 z:[\"a\"]}"},
	{"m.z[0], m.z[1]", "m={z:[\"a\"]}"},
	{"m.x, m", refused},
	{"l[0], l", refused},
	{"l[0].x, l[1]", "l=[2]"},
	{"#n, n", refused},
	{"m.#x", "m={x:1}"},
	{"n[0]", ""},
	{"m[0]", ""},
	{"l.x", ""},
	{"m.x.y, m.z[0]", "m={z:[\"a\"]}"},
	{"pk,n,s,l,m,ss,ns,bo,nu,b", "b=bAAEC bo=true l=[1 2 3] m={x:1 y:\"q\" z:[\"a\"]} n=5 ns=NS{1 2} nu=null pk=\"a\" s=\"héllo\" ss=SS{a b}"},
	{"a.b.c.d.e[0][1]", ""},
	{"l[1], m.z, l[0]", "l=[1 2] m={z:[\"a\"]}"},
	{"AND", refused},
	{"m.and", refused},
	{"n , ", refused},
	{"l[0][0], l[0].x", refused},
}
