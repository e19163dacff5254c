package app

import (
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
)

// A TableView is a table in JSON, and as text.
type TableView struct {
	Name     string      `json:"table_name"`
	ARN      string      `json:"table_arn"`
	Status   string      `json:"status"`
	Created  time.Time   `json:"created_at"`
	Key      []string    `json:"key"`     // attributes of the primary key
	Indexes  []IndexView `json:"indexes"` // the global secondary indexes
	Items    int64       `json:"items"`
	Bytes    int64       `json:"bytes"`
	Billing  string      `json:"billing"` // PAY_PER_REQUEST or PROVISIONED
	Read     int64       `json:"read_units,omitempty"`
	Write    int64       `json:"write_units,omitempty"`
	TTL      string      `json:"ttl"`                     // status of expiry
	TTLBy    string      `json:"ttl_attribute,omitempty"` // attribute with the time of expiry
	Stream   string      `json:"stream_view,omitempty"`   // what stream records show
	ARNOf    string      `json:"stream_arn,omitempty"`
	PITR     string      `json:"pitr"`                       // status of point-in-time recovery
	PITRDays int32       `json:"pitr_days,omitempty"`        // days that the table can be restored to
	Earliest *time.Time  `json:"pitr_earliest_at,omitempty"` // earliest instant to restore
	Latest   *time.Time  `json:"pitr_latest_at,omitempty"`   // latest instant to restore
	Protect  bool        `json:"deletion_protection"`        // the table refuses to be deleted
	Stack    string      `json:"stack_name,omitempty"`

	Versions *VersionsView     `json:"versions,omitempty"`
	Unknown  map[string]string `json:"unknown,omitempty"` // what could not be read: the reason by operation
	Misfit   string            `json:"misfit,omitempty"`  // why the table does not fit this program
}

// An IndexView is an index of a table in JSON.
type IndexView struct {
	Name       string   `json:"index_name"`
	Status     string   `json:"status"`
	Key        []string `json:"key"`        // attributes of the key
	Projection string   `json:"projection"` // attributes that the index has
	Items      int64    `json:"items"`
	Bytes      int64    `json:"bytes"`
}

// A VersionsView is a table's version record in JSON.
type VersionsView struct {
	Schema    string `json:"schema_version"`
	ClientMin string `json:"client_min_version"`
	Lambda    string `json:"lambda_version,omitempty"`
}

// TableViewOf returns the view of a description.
func TableViewOf(d *admin.Description) *TableView {
	v := &TableView{
		Name: d.Name, ARN: d.ARN, Status: d.Status, Created: d.Created.UTC(), Key: d.Key, Items: d.Items, Bytes: d.Bytes,
		Billing: d.Billing, Read: d.Read, Write: d.Write, TTL: d.Expiry, TTLBy: d.ExpiryBy,
		Stream: d.StreamView, ARNOf: d.StreamARN, PITR: d.Recovery.Status, PITRDays: d.Recovery.Days,
		Earliest: known(d.Recovery.Earliest), Latest: known(d.Recovery.Latest),
		Protect: d.DeletionProtection, Stack: d.Stack, Misfit: d.Misfit,
	}
	for _, ix := range d.Indexes {
		v.Indexes = append(v.Indexes, IndexView(ix))
	}
	if d.Version != nil {
		v.Versions = (*VersionsView)(d.Version)
	}
	for operation, err := range d.Unknown {
		if v.Unknown == nil {
			v.Unknown = map[string]string{}
		}
		v.Unknown[operation] = err.Error()
	}
	return v
}

// known is nil for the zero time.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Text writes the view for people.
func (v *TableView) Text(w *strings.Builder) {
	Fields(w, "Name", v.Name, "ARN", v.ARN, "Status", v.Status, "Created", v.Created.Format(time.RFC3339),
		"Key", strings.Join(v.Key, ", "), "Size", fmt.Sprintf("%s items, %s bytes (AWS counts about every six hours)", limitarg.Grouped(v.Items), limitarg.Grouped(v.Bytes)),
		"Billing", v.billing(), "Expiry", strings.TrimSpace(v.TTL+" "+v.TTLBy), "Stream", v.Stream, "Recovery", v.recovery(),
		"Deletion protection", map[bool]string{true: "on", false: "off"}[v.Protect], "CloudFormation stack", v.Stack)
	v.Versions.Text(w)
	w.WriteByte('\n')
	rows := make([][]string, len(v.Indexes))
	for i, ix := range v.Indexes {
		rows[i] = []string{ix.Name, strings.Join(ix.Key, ", "), ix.Projection, ix.Status, limitarg.Grouped(ix.Items), limitarg.Grouped(ix.Bytes)}
	}
	Table(w, []string{"INDEX", "KEY", "PROJECTION", "STATUS", "ITEMS", "BYTES"}, rows)
	if v.Misfit != "" {
		fmt.Fprintf(w, "\nthe table does not fit this client: %s\n", v.Misfit)
	}
}

func (v *TableView) billing() string {
	if v.Read+v.Write == 0 {
		return v.Billing
	}
	return fmt.Sprintf("%s, %d read units and %d write units a second", v.Billing, v.Read, v.Write)
}

func (v *TableView) recovery() string {
	if v.Latest == nil || v.Earliest == nil {
		return v.PITR
	}
	return fmt.Sprintf("%s, %s to %s", v.PITR, v.Earliest.Format(time.RFC3339), v.Latest.Format(time.RFC3339))
}

// Text writes the versions for people; nil is a table without a record.
func (v *VersionsView) Text(w *strings.Builder) {
	if v == nil {
		Fields(w, "Versions", "")
		return
	}
	Fields(w, "Schema version", v.Schema, "Oldest client", v.ClientMin, "Aggregator version", v.Lambda)
}
