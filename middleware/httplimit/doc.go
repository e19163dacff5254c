// Package httplimit limits HTTP requests: those that a server gets, and those that a client
// sends.
//
// [Middleware] wraps an [http.Handler]. It asks a limiter before it calls the handler, and
// answers 429 if the limiter refuses. Routers that take func(http.Handler) http.Handler use
// it as it is. [Transport] wraps an [http.RoundTripper]. It asks a limiter before it sends a
// request to an upstream, and obeys what the upstream says about its own limits.
//
//	limit, err := httplimit.New(limits, httplimit.Options{
//		Entity:   httplimit.APIKey(),
//		Consume:  map[string]int64{"rpm": 1},
//		Fallback: []limiter.Limit{limiter.PerMinute("rpm", 100)},
//	})
//	http.Handle("/", limit.Handler(handler))
//
// Both take an [Acquirer]: a *limiter.Limiter, or AcquirerFunc(limits.Wait) to queue
// requests instead of refusing them.
//
// # Whom a request counts against
//
// A [Key] reads the entity and the resource from a request: [APIKey], [Claim], [Header],
// [ClientAddr], [Pattern], or any function. Entities must be few enough to keep a bucket
// each. Read them from what the server has authenticated. A client that can choose its
// entity freely has as many buckets as it likes.
//
// # What it costs
//
// Options.Consume has the cost of every request, Options.Cost that of one request. What is
// known only afterwards is settled: by the handler with [Settle], or by Options.Settle from
// the response. A request is charged in full unless one of these says otherwise. What
// happens if a request ends early:
//
//   - The client leaves while the limiter decides: the limiter returns what it has taken,
//     and the handler is not called.
//   - The client leaves later: the request is charged as usual, because the work was done.
//     A client that could get its tokens back by leaving would work for free.
//   - The handler panics before the response has begun: everything goes back.
//   - It panics later: the request is charged as usual.
//
// # How long slots are held
//
// Options.Slots has the slots of each request: until the handler returns, until the connection that
// it took over is closed, or until a response's body is closed, for a [Transport]. A refusal is 429
// like that of another limit, because it is the client's own requests that are too many. It has no
// Retry-After, because nobody knows when they end, and no fields: how many slots are free changes
// with each answer.
//
// # Answers
//
// Admitted and refused answers have the fields RateLimit-Policy and RateLimit of
// draft-ietf-httpapi-ratelimit-headers-11, in the syntax of RFC 9651. q and w are a limit's
// amount and period. The parameter zae-burst is the capacity, where it differs from the
// amount. For a quota, q is its tokens, and w the length of the period that is under way. r is
// the balance, at least 0. t is the time until the bucket is full. A client that uses
// no more than r within t is not refused, if nobody else takes from the same bucket. On a
// refusal t is no later than Retry-After, as the draft asks. The body of a refusal is
// a problem of RFC 9457, of the draft's type quota-exceeded.
//
// Answers never name the entity. They never show a parent's balance either, because it tells
// what other tenants do. If only a parent's limit refused, the answer names that limit and
// says that it is shared, and has the right wait.
//
// [StatusOf] has the table from errors to status codes.
package httplimit
