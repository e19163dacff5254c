package request

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

const (
	// maxPage is how many bytes of items a Query or a Scan reads before it ends its page. The
	// item that crosses the limit is still part of the page.
	maxPage = 1024 * 1024
	// fetchAtOnce is how many entries of a local index are read before their items are fetched. A
	// page often ends long before its entries alone have 1 MB.
	fetchAtOnce = 128
)

// readRequest holds the parameters that a Query and a Scan share. The two operations have types of
// their own in the SDK, with the same members.
type readRequest struct {
	query              bool // not a Scan
	index              *string
	consistent         *bool
	limit              *int32
	filter, projection *string
	selects            types.Select
	capacity           types.ReturnConsumedCapacity
}

// check validates the parameters that need no table.
func (in *readRequest) check() error {
	if err := CheckConsumedCapacity(in.capacity); err != nil {
		return err
	}
	const least = "Member must have value greater than or equal to 1"
	switch {
	case in.limit == nil || *in.limit > 0:
		return nil
	case in.query:
		return api.Validation("1 validation error detected: Value at 'Limit' failed to satisfy constraint: " + least)
	default:
		return api.Unfit(fmt.Sprintf("'%d'", *in.limit), "limit", least)
	}
}

// reading is a validated Query or Scan: the records to read, and how to process them. One goroutine
// owns it.
//
// A Query and a Scan differ only in the shards and the keys that they cover. Pages, billing,
// filters and projections are the same code, so the two cannot price an item differently.
type reading struct {
	table *table.Table
	index *table.Index       // nil: the table itself
	key   *storage.KeySchema // of the index or the table
	// consistent decides the price alone: every reading sees the latest records.
	consistent bool
	limit      int // 0: none
	capacity   types.ReturnConsumedCapacity

	// The reading covers these shards, one after the other. In the first shard it covers only the
	// range keys.
	shards   []storage.Shard
	keys     storage.Range
	backward bool
	// partition is the only partition that is read, or NoPartition.
	partition wall.Partition
	// held is the table shard that is locked while a partition of a local index is read. The page
	// and the fetched items are then as of one instant. Without it, an item that moves in the
	// index could be missed:
	//
	//	query   read entries a to f ···················· read entries g to z: the item is at neither
	//	write                      drop entry h · put entry b
	held *storage.Shard

	filter     *expr.Condition
	projection *expr.Projection
	countOnly  bool
	// fetches: the index is local and does not hold everything that is requested; items are read
	// from the table.
	fetches bool
}

// newReading loads the schema before the position of its alteration. An alteration stores the
// position first. A reading that finds the new schema therefore waits for its entry:
//
//	alter     store position ············ store schema
//	reading                                             load schema · load position
func newReading(t *table.Table, c *api.Call, in *readRequest) (r reading, err error) {
	r = reading{
		table:      t,
		key:        &t.Key,
		consistent: aws.ToBool(in.consistent),
		limit:      int(aws.ToInt32(in.limit)),
		capacity:   in.capacity,
		shards:     t.Shards[:],
	}
	if in.index == nil {
		return r, nil
	}
	x, err := t.Schema().Index(*in.index)
	c.See(journal.Position(t.Altered.Load())) // as of that schema or later
	switch {
	case err != nil:
		return r, err
	case r.consistent && !x.Local:
		return r, api.Validation("Consistent reads are not supported on global secondary indexes")
	case x.Filling.Load():
		return r, api.Validationf("Cannot read from backfilling global secondary index: %s", x.Name)
	}
	r.index, r.key, r.shards = x, &x.Key, x.Shards[:]
	return r, nil
}

// parse parses the filter and the parts of each item to return.
func (r *reading) parse(in *readRequest, env *expr.Env) (err error) {
	if in.filter != nil {
		if r.filter, err = expr.ParseFilter(*in.filter, env); err != nil {
			return err
		}
	}
	if in.projection != nil {
		if r.projection, err = expr.ParseProjection(*in.projection, env); err != nil {
			return err
		}
	}
	if err := r.choose(in.selects); err != nil {
		return err
	}
	return r.project()
}

// choose applies Select.
//
// COUNT with a projection is an error, as on AWS, although the answer has no items.
func (r *reading) choose(what types.Select) error {
	if r.projection != nil && what != "" && what != types.SelectSpecificAttributes {
		return api.Validationf("Cannot specify the ProjectionExpression when choosing to get %s", what)
	}
	switch what {
	case "":
	case types.SelectCount:
		r.countOnly = true
	case types.SelectSpecificAttributes:
		if r.projection == nil {
			return api.Validation("Must specify the ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
		}
	case types.SelectAllAttributes:
		if r.index == nil || r.index.Projected == nil {
			break
		}
		if !r.index.Local {
			return api.Invalid("Select type ALL_ATTRIBUTES is not supported for global secondary index %s because its projection type is not ALL", r.index.Name)
		}
		r.fetches = true
	case types.SelectAllProjectedAttributes:
		if r.index == nil {
			return api.Validation("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
		}
	default:
		return api.OneOf("select", what, types.SelectSpecificAttributes, types.SelectCount, types.SelectAllAttributes, types.SelectAllProjectedAttributes)
	}
	return nil
}

// project finds out whether the index has the attributes that the projection asks for.
//
// A local index lets the reading fetch what it lacks, and a global index does not, as AWS
// documents. A projection that the index satisfies fetches nothing. DynamoDB Local fetches for any
// projection.
func (r *reading) project() error {
	if r.projection == nil {
		return nil
	}
	lacks := r.unprojected(r.projection.TopLevel())
	switch {
	case lacks == nil:
	case r.index.Local:
		r.fetches = true
	default:
		return api.Invalid("Global secondary index %s does not project [%s]", r.index.Name, strings.Join(lacks, ", "))
	}
	return nil
}

// unprojected returns the attributes that are not in the index. A table has all attributes, so
// nothing is lacking.
func (r *reading) unprojected(attributes []string) (lacks []string) {
	if r.index == nil {
		return nil
	}
	for _, name := range attributes {
		if !r.index.Projects(name) {
			lacks = append(lacks, name)
		}
	}
	return lacks
}

// page is the result of one Query or Scan before the filter.
//
// Its records stay valid after the locks are released, because records never change. Filters and
// projections run without a lock.
type page struct {
	entries []*storage.Record // of the table or the index, in order
	bytes   int               // of the entries
	// items are those of the entries, if they are fetched; an item that is gone since then is
	// nil.
	items   []*storage.Record
	fetched int         // bytes of the items
	units   table.Units // for the items
	// more tells that the page ended at a limit, perhaps at the last record. The next page is then
	// empty, as AWS documents for LastEvaluatedKey. DynamoDB Local returns no key in some of these
	// cases.
	more bool
}

// perform reads a page and answers with it.
func (r *reading) perform(ex *Executor, c *api.Call) (answer, error) {
	p, err := r.read(ex, c)
	if err != nil {
		return answer{}, err
	}
	return r.answer(c, &p)
}

// read reads a page, unless the partition, or the table or index, has no capacity left. A Scan is
// charged to the whole table or index, not to partitions, because it reads little of each.
//
// The room is asked for before the page, and the price is taken after it: nobody knows how many
// items a page will have.
func (r *reading) read(ex *Executor, c *api.Call) (page, error) {
	if r.table.Meter == nil {
		return r.page(c), nil
	}
	now := ex.Now()
	d := Demand{Table: r.table, index: r.index, Op: wall.Read, Partition: r.partition}
	if r.index != nil && r.index.Local {
		d.index = nil
	}
	if refusals := RefusalsOf(now, []Demand{d}); len(refusals) > 0 {
		return page{}, Throttled(refusals...)
	}
	p := r.page(c)
	b := r.bill(&p)
	d.Units = b.total()
	Charge(now, []Demand{d})
	return p, nil
}

// page reads a page. It holds the lock of a shard only while it reads that shard. A page of a Scan
// is therefore not as of one instant, and AWS promises no more. The naive design locks all shards,
// and each page would stop all writes.
//
// A Scan of a table finds an item that exists throughout exactly once, because an item never leaves
// its shard. In an index an entry may move to a shard that was read, or from it. A reader of a
// global index must expect that, as on AWS.
func (r *reading) page(c *api.Call) (p page) {
	if r.held != nil {
		r.held.Mu.RLock()
		defer r.held.Mu.RUnlock()
		c.See(r.held.Latest)
	}
	keys := r.keys
	for i := range r.shards {
		s := &r.shards[i]
		for more := true; more; {
			var records []*storage.Record
			var bytes int
			records, bytes, more = s.Page(c, keys, r.backward, r.room(&p), maxPage-max(p.bytes, p.fetched))
			if !r.fetches {
				p.entries, p.bytes, p.more = joined(p.entries, records), p.bytes+bytes, more
			} else {
				r.fetch(c, &p, records)
			}
			if p.more {
				return p
			}
			if more {
				keys = keys.After(records[len(records)-1].Key, r.backward)
			}
		}
		keys = storage.EveryKey
	}
	return p
}

// joined is append, but without the copy if there is nothing to append to.
func joined(to, records []*storage.Record) []*storage.Record {
	if to == nil {
		return records
	}
	return append(to, records...)
}

// room returns how many entries to read next; 0: any number. A page that fetches reads its entries
// in portions and may stop within one. The entries beyond are read again for the next page.
func (r *reading) room(p *page) int {
	left := r.limit - len(p.entries)
	switch {
	case r.fetches && (r.limit == 0 || left > fetchAtOnce):
		return fetchAtOnce
	case r.limit == 0:
		return 0
	default:
		return left
	}
}

// fetch adds entries of a local index to the page, with their items, until the page ends. The items
// are whole: each is billed separately, and their sizes count for the limit of a page. Without the
// latter, a megabyte of small entries could lead to gigabytes of items, and the answer would have
// to hold them.
func (r *reading) fetch(c *api.Call, p *page, entries []*storage.Record) {
	for _, entry := range entries {
		item := r.itemOf(c, entry)
		p.entries, p.bytes = append(p.entries, entry), p.bytes+entry.Size
		p.items, p.fetched = append(p.items, item), p.fetched+item.Bytes()
		p.units += table.ReadUnits(item.Bytes(), r.consistent)
		if p.more = len(p.entries) == r.limit || max(p.bytes, p.fetched) > maxPage; p.more {
			return
		}
	}
}

// itemOf returns the item of an entry of a local index.
//
// The shard that is held is not locked again. A second shared lock of one goroutine waits for ever
// if a writer has come in between:
//
//	the query    RLock ····························· RLock: waits for that write
//	a write            Lock: waits for the query
func (r *reading) itemOf(c *api.Call, entry *storage.Record) *storage.Record {
	key, err := r.table.Key.Read(entry.Item(), func(*storage.KeyAttribute, value.AV, bool) error { return storage.ErrKeyMismatch })
	if err != nil {
		panic("dynamolite: an entry of index " + r.index.Name + " has no key: " + err.Error())
	}
	s := r.table.Shard(&key)
	if s == r.held {
		return s.GetLocked(key.Full)
	}
	return s.Get(c, key.Full)
}

// answer is the output of a Query or a Scan.
//
// Its items were decoded for this answer, so the caller may keep and change them.
type answer struct {
	items          []map[string]types.AttributeValue
	count, scanned int32
	last           value.Item
	consumed       *types.ConsumedCapacity
}

// answer filters and projects the records read, and enters the bill for them. The bill comes first,
// as it counts what was read: a filter saves nothing, as AWS documents. ScannedCount counts the
// same.
//
// Without a filter, a count decodes no item. Only items that the answer returns count for its room.
func (r *reading) answer(c *api.Call, p *page) (a answer, err error) {
	b := r.bill(p)
	b.enter(c.Op)
	a.consumed = b.report(r.capacity)
	a.scanned = int32(len(p.entries)) //nolint:gosec // a page of 1 MB holds far fewer
	if p.more {
		a.last = r.position(p.entries[len(p.entries)-1])
	}
	switch {
	case r.countOnly && r.filter == nil:
		a.count = a.scanned
		return a, nil
	case r.countOnly:
	case r.filter == nil:
		a.items = make([]map[string]types.AttributeValue, 0, len(p.entries))
	default:
		a.items = []map[string]types.AttributeValue{}
	}
	for i := range p.entries {
		item, err := r.found(p, i)
		switch {
		case err != nil:
			return answer{}, err
		case item == nil:
			continue
		}
		a.count++
		if r.countOnly {
			continue
		}
		if err := c.Hold(r.source(p, i).Bytes()); err != nil {
			return answer{}, err
		}
		a.items = append(a.items, item)
	}
	return a, nil
}

// found returns the part of an entry to return, or nil if the filter drops it or its item is
// gone. The filter sees the entry: attributes that an index does not hold are absent to it, even
// if they are fetched.
func (r *reading) found(p *page, i int) (item value.Item, err error) {
	if r.filter != nil || !r.fetches {
		item = p.entries[i].Item()
	}
	if r.filter != nil {
		if ok, err := r.filter.Eval(item); err != nil || !ok {
			return nil, err
		}
	}
	if r.fetches {
		item = r.source(p, i).Item()
	}
	if item == nil || r.projection == nil {
		return item, nil
	}
	return r.projection.Apply(item), nil
}

// source returns the record whose attributes are returned: the entry, or the item fetched for it.
// It is also what an answer counts for its room: a fetched item may be far larger than its entry.
func (r *reading) source(p *page, i int) *storage.Record {
	if r.fetches {
		return p.items[i]
	}
	return p.entries[i]
}

// bill prices the sum of the records read, rounded up once. An index is billed separately. The
// table then appears with the items fetched from it. The sum is rounded, not each item, as AWS
// documents for Query and Scan. Fetched items are rounded one by one, as AWS documents for local
// indexes.
func (r *reading) bill(p *page) Bill {
	b := Bill{table: r.table, Reads: true, Units: p.units}
	u := table.ReadUnits(p.bytes, r.consistent)
	if r.index == nil {
		b.Units += u
	} else {
		b.addIndex(r.index, u)
	}
	return b
}

// position returns the LastEvaluatedKey of a page that ends with a record: the keys of the table
// and of the index. The keys of both are needed. Many entries of an index can have the same index
// key, and the table's key puts them in an order.
func (r *reading) position(last *storage.Record) value.Item {
	item := last.Item()
	key := make(value.Item, 2*r.key.Attributes())
	for _, s := range []*storage.KeySchema{r.key, &r.table.Key} {
		for _, a := range []*storage.KeyAttribute{&s.Hash, &s.Rng} {
			if a.Name != "" {
				key[a.Name] = item[a.Name]
			}
		}
	}
	return key
}

// errStartKey is the error for an ExclusiveStartKey that is not a position in the table or index.
var errStartKey = api.Validation("The provided starting key is invalid")

// startKey returns the shard and the tree key of a position. The position must name exactly the
// keys of the table and of the index. The item need not exist. It comes from the caller, so it need
// not be a position that the engine returned.
func (r *reading) startKey(start value.Item) (shard int, key string, err error) {
	own := make(value.Item, r.table.Key.Attributes())
	for name, v := range start {
		switch {
		case r.table.Key.Has(name):
			own[name] = v
		case r.index == nil || !r.index.Key.Has(name):
			return 0, "", errStartKey
		}
	}
	k, err := r.table.Key.Of(own)
	if err != nil {
		return 0, "", errStartKey
	}
	if r.index == nil {
		return k.Shard, k.Full, nil
	}
	var enc []byte
	for _, a := range []*storage.KeyAttribute{&r.index.Key.Hash, &r.index.Key.Rng} {
		if a.Name == "" {
			continue
		}
		v, problem, err := a.Check(start[a.Name])
		if err != nil || problem != storage.KeyFine {
			return 0, "", errStartKey
		}
		enc = value.AppendKey(enc, v)
		if a == &r.index.Key.Hash {
			shard = storage.ShardOf(enc)
		}
	}
	return shard, string(enc) + k.Full, nil
}
