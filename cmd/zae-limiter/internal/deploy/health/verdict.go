package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
)

// A Verdict sums a report up in a word.
type Verdict string

// The verdicts. If several hold, the first of this list counts.
const (
	// Changing: an operation runs on the stack, the table or a function.
	Changing Verdict = "changing"
	// Broken: limiters of this version cannot use the table, or the stack needs repair.
	Broken Verdict = "broken"
	// Unreachable: no server answers for the table, so nothing is known of it.
	Unreachable Verdict = "unreachable"
	// Forbidden: AWS does not accept the credentials, or they do not permit to describe the
	// table. So nothing is known of it.
	Forbidden Verdict = "forbidden"
	// Degraded: limiters work, and something else does not.
	Degraded Verdict = "degraded"
	// Incomplete: nothing wrong was seen, but some parts could not be read.
	Incomplete Verdict = "incomplete"
	// Healthy: every part was read, and works.
	Healthy Verdict = "healthy"
)

// verdicts are in the order in which they count. A finding may also be healthy: a note.
var verdicts = []Verdict{Changing, Broken, Unreachable, Forbidden, Degraded, Incomplete, Healthy}

// A Finding is something that was found, and what to do about it.
type Finding struct {
	// Verdict is what the finding makes of the report; [Healthy] is a note.
	Verdict Verdict `json:"verdict"`
	Part    string  `json:"part"` // as in the JSON form of the report
	What    string  `json:"message"`
	Do      string  `json:"hint,omitempty"`
}

// LateAfter is the iterator age from which the aggregator counts as late, as for the
// template's alarm.
const LateAfter = 30_000 // milliseconds

// Judge sets the findings and the verdict by what was read. It does no I/O.
func (r *Report) Judge() {
	r.Findings = []Finding{}
	r.judgeStack()
	r.judgeTable()
	r.judgeVersions()
	if r.Table.Problem == nil && unreadable(r, "namespaces", r.Namespaces) && len(*r.Namespaces.Value) == 0 {
		r.find(Broken, "namespaces", "zae-limiter deploy registers "+dynamo.DefaultNamespace+", or name another to zae-limiter namespace register", "no namespace is registered, so no limiter can open the table")
	}
	if r.Aggregator != nil {
		r.judgeFunction("aggregator", r.Aggregator)
		r.judgeMapping(r.Aggregator.Mapping)
	}
	if r.Provisioner != nil {
		r.judgeFunction("provisioner", r.Provisioner)
	}
	r.judgeDeadLetters()
	r.judgeArchive()
	r.judgeAlarms()
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(verdicts, a.Verdict), slices.Index(verdicts, b.Verdict))
	})
	r.Verdict = Healthy
	if len(r.Findings) > 0 {
		r.Verdict = r.Findings[0].Verdict
	}
}

func (r *Report) find(v Verdict, part, do, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{v, part, fmt.Sprintf(format, args...), do})
}

// unreadable finds a part that could not be read. It reports whether there is a value.
func unreadable[T any](r *Report, name string, p Part[T]) (ok bool) {
	if p.Problem == nil {
		return p.Value != nil
	}
	verdict, do := Incomplete, ""
	switch p.Problem.Kind {
	case Denied:
		do = "use credentials that permit " + p.Problem.Call
	case Expired:
		verdict, do = Forbidden, "look again with new credentials, from aws sso login for instance"
	case Wrong:
		verdict, do = Forbidden, "look again with the right AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
	case NotFound, Throttled, TimedOut, Unavailable, Other:
	}
	r.find(verdict, name, do, "%s", p.Problem)
	return false
}

// unreadableOrGone is [unreadable] for a part without which the limiter is degraded.
func unreadableOrGone[T any](r *Report, name, what string, p Part[T]) (ok bool) {
	if p.Problem != nil && p.Problem.Kind == NotFound {
		r.find(Degraded, name, "deploy the stack again", "%s does not exist", what)
		return false
	}
	return unreadable(r, name, p)
}

func (r *Report) judgeStack() {
	if !unreadable(r, "stack", r.Stack) {
		return
	}
	s := r.Stack.Value
	status := "the stack is " + s.Status
	if s.Reason != "" {
		status += ": " + s.Reason
	}
	switch {
	case s.Status == "REVIEW_IN_PROGRESS":
		r.find(Broken, "stack", s.Next, "the stack was never deployed")
	case strings.HasSuffix(s.Status, "_IN_PROGRESS"):
		r.find(Changing, "stack", "follow it with --watch", "%s", status)
	case slices.Contains([]string{"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"}, s.Status):
		if without := s.unfinished(); len(without) > 0 {
			r.find(Degraded, "stack", "zae-limiter deploy continues it", "the deployment is not complete: the stack is to have, and does not have, %s", strings.Join(without, " and "))
		}
	case s.Status == "UPDATE_ROLLBACK_COMPLETE" || s.Status == "IMPORT_ROLLBACK_COMPLETE":
		r.find(Degraded, "stack", s.Next, "the last update failed and was rolled back: %s", status)
	default:
		r.find(Broken, "stack", s.Next, "%s", status)
	}
	unreadable(r, "stack", s.Resources)
	unreadable(r, "stack", s.Events)
}

func (r *Report) judgeTable() {
	if p := r.Table.Problem; p != nil {
		switch p.Kind {
		case NotFound:
			r.find(Broken, "table", "check the name and the region", "the table does not exist")
		case TimedOut, Unavailable:
			r.find(Unreachable, "table", "check the network and the endpoint", "the table cannot be reached: %s", p)
		case Denied:
			r.find(Forbidden, "table", "use credentials that permit "+p.Call, "%s", p)
		case Expired, Wrong, Throttled, Other:
			unreadable(r, "table", r.Table)
		}
		return
	}
	t := r.Table.Value
	switch t.Status {
	case string(types.TableStatusActive):
	case string(types.TableStatusCreating), string(types.TableStatusUpdating):
		r.find(Changing, "table", "", "the table is %s", t.Status)
	default:
		r.find(Broken, "table", nextOfTable[types.TableStatus(t.Status)], "the table is %s", t.Status)
	}
	if t.Misfit != "" {
		r.find(Broken, "table", "create a new table", "the table does not fit this client: %s", t.Misfit)
	}
	for _, ix := range t.Indexes {
		if ix.Status != "" && ix.Status != string(types.IndexStatusActive) {
			r.find(Changing, "table", "", "the index %s is %s", ix.Name, ix.Status)
		}
	}
	r.judgeUpkeep(t)
}

// nextOfTable is what to do about a table that answers no requests, by its status.
var nextOfTable = map[types.TableStatus]string{
	types.TableStatusDeleting:                          "once it is gone, restore a backup of it: see docs/backup.md",
	types.TableStatusInaccessibleEncryptionCredentials: "enable the key of the table in KMS, and permit DynamoDB its use",
	types.TableStatusArchiving:                         archivedTable,
	types.TableStatusArchived:                          archivedTable,
}

const archivedTable = "its key was out of reach for a week, and DynamoDB makes a backup of it: restore that, see docs/backup.md"

// judgeUpkeep judges what a table needs in the long run.
func (r *Report) judgeUpkeep(t *admin.Description) {
	for _, call := range []string{"DescribeTimeToLive", "DescribeContinuousBackups", "ListTagsOfResource"} {
		if err := t.Unknown[call]; err != nil && !isUnsupported(err) {
			unreadable(r, "table", Failed[struct{}]("dynamodb:"+call, err))
		}
	}
	if r.Aggregator != nil && t.StreamView == "" {
		r.find(Degraded, "table", "zae-limiter table enable-stream", "the table has no stream, and the aggregator needs one")
	}
	if t.Expiry == string(types.TimeToLiveStatusDisabled) {
		r.find(Healthy, "table", "", "expired items stay: time to live is disabled")
	}
	if t.Recovery.Status == string(types.PointInTimeRecoveryStatusDisabled) {
		r.find(Healthy, "table", "", "the table cannot be restored to an earlier time: point-in-time recovery is disabled")
	}
	for _, ix := range t.Indexes {
		if ix.Name == "GSI2" && ix.Projection == string(types.ProjectionTypeAll) {
			r.find(Healthy, "table", "", "the index GSI2 projects ALL: each acquire costs a second write unit")
		}
	}
}

func (r *Report) judgeVersions() {
	if r.Table.Problem != nil || !unreadable(r, "versions", r.Versions) {
		return
	}
	v := r.Versions.Value
	switch {
	case !v.Recorded:
		r.find(Healthy, "versions", "zae-limiter table create adds one", "the table has no version record, so no client can tell whether it is too old")
	case v.Incompatible != "":
		r.find(Broken, "versions", "zae-limiter check shows the versions of client and table", "%s", v.Incompatible)
	case v.Outdated:
		r.find(Healthy, "versions", "zae-limiter upgrade", "the aggregator has version %s, and this program has %s", v.Lambda, dynamo.ClientVersion)
	}
}

func (r *Report) judgeFunction(part string, f *Function) {
	if unreadableOrGone(r, part, "the function "+f.Name, f.Code) {
		c := f.Code.Value
		switch {
		case c.State == "Failed" || c.Update == "Failed":
			r.find(Degraded, part, "deploy the stack again", "the function is %s, its last update is %s: %s", c.State, c.Update, c.Reason)
		case c.State == "Pending" || c.Update == "InProgress":
			r.find(Changing, part, "", "the function is %s, its last update is %s", c.State, c.Update)
		}
	}
	r.judgeDrift(part, f)
	unreadable(r, part, f.LastError)
	if !unreadable(r, part, f.Activity) {
		return
	}
	a := f.Activity.Value
	if a.IteratorAge != nil && *a.IteratorAge > LateAfter {
		r.find(Degraded, part, alarmsSection, "the aggregator is %.0f s late", *a.IteratorAge/1000)
	}
	const most = 2 // one call of so many
	switch n := a.Errors + a.Throttles; {
	case n > 0 && n*most >= a.Calls+a.Throttles:
		r.find(Degraded, part, "see its last error, and its log", "the function does not work: %.0f of %.0f calls failed and %.0f were throttled in the last hour", a.Errors, a.Calls, a.Throttles)
	case n > 0:
		r.find(Healthy, part, "", "%.0f calls of the function failed and %.0f were throttled in the last hour", a.Errors, a.Throttles)
	}
	if n := a.Failed + a.Poisoned; n > 0 {
		r.find(Healthy, part, "", "%.0f records failed and %.0f could not be read in the last hour", a.Failed, a.Poisoned)
	}
}

// alarmsSection is where to read on.
const alarmsSection = "see docs/operations.md#alarms"

func (r *Report) judgeMapping(p Part[Mapping]) {
	if p.Problem != nil && p.Problem.Kind == NotFound {
		r.find(Degraded, "aggregator", "deploy the stack again", "no event source mapping passes the stream to the function")
		return
	}
	if !unreadable(r, "aggregator", p) {
		return
	}
	m := p.Value
	switch m.State {
	case mappingEnabled:
	case "Creating", "Enabling", "Updating":
		r.find(Changing, "aggregator", "", "the event source mapping is %s", m.State)
	default:
		r.find(Degraded, "aggregator", "enable it, or deploy the stack again", "the event source mapping is %s: %s", m.State, m.Reason)
	}
	if strings.HasPrefix(m.Result, mappingProblem) {
		r.find(Degraded, "aggregator", "see the log of the function", "the last call for the stream failed: %s", m.Result)
	}
}

func (r *Report) judgeDeadLetters() {
	q := r.DeadLetters
	if q == nil {
		return
	}
	if unreadableOrGone(r, "dead_letters", "the queue of dead letters", q.Counts) {
		if n := q.Counts.Value.Visible + q.Counts.Value.InFlight; n > 0 {
			r.find(Degraded, "dead_letters", "zae-limiter redrive, within 24 hours of the failure", "about %d dead letters wait: the aggregator gave up on these batches", n)
		}
	}
	unreadable(r, "dead_letters", q.Oldest)
}

func (r *Report) judgeArchive() {
	if r.Archive == nil {
		return
	}
	if unreadableOrGone(r, "archive", "the bucket "+r.Archive.Bucket, r.Archive.Exists) {
		unreadable(r, "archive", r.Archive.Lifecycle)
	}
}

func (r *Report) judgeAlarms() {
	if !unreadable(r, "alarms", r.Alarms) {
		return
	}
	silent := 0
	for _, a := range *r.Alarms.Value {
		switch a.State {
		case AlarmActive:
			r.find(Degraded, "alarms", alarmsSection, "%s is in ALARM: %s", a.Name, a.Reason)
		case AlarmMissing:
			r.find(Degraded, "alarms", "deploy the stack again", "%s was deleted", a.Name)
		}
		if !a.Acts && a.State != AlarmMissing {
			silent++
		}
	}
	if silent > 0 {
		r.find(Healthy, "alarms", "deploy with --alarm-sns-topic", "%d of %d alarms notify nobody: they have no enabled action", silent, len(*r.Alarms.Value))
	}
}
