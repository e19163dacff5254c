package schema

import (
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/store"
)

// A page of usage is an item that keeps hours which a bucket item no longer has room for,
// or of a bucket item that has gone. It is in none of the indexes, so writing one costs one
// unit. Instead, the pages of a resource are in PageParts partitions, by entity, and in
// each they are ordered by month and entity:
//
//	{ns}/USAGE#{resource}#{part}  {month}#{entity}#{first}-{last}#{shard}#{life}
//
// First and last are the first and the last hour of the page, as {day}T{hour}. A page has
// hours of one month. Of one life of an item, all pages with the same first and last hour
// are equal.
//
// An item for each month names the resources that have pages of it. It lives as long as
// they do:
//
//	{ns}/USAGE#  {month}

// PageParts is the number of partitions with the pages of a resource.
const PageParts = 16

const (
	pagePrefix = "USAGE#"
	pageMonth  = "2006-01"
	pageHour   = "02T15"
)

// A Page is a page of usage.
type Page struct {
	store.Bucket
	Life    int64         // see [Diary.Life]
	Entries []diary.Entry // of one month; at least one
}

// Month returns the start of the month of an hour.
func Month(hour int32) time.Time {
	year, month, _ := diary.Start(hour).Date()
	return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
}

// PagePart is the number of the partition with the pages of an entity.
func PagePart(entity string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(entity)) // it never fails
	return int(h.Sum32() % PageParts)
}

// PagePK is a partition of the pages of a resource.
func PagePK(ns, resource string, part int) string {
	return ns + "/" + pagePrefix + resource + "#" + strconv.Itoa(part)
}

// PageMonthSK begins the sort keys of the pages of a month. The entity follows, and the
// sort keys of an entity lie before those of the next one.
func PageMonthSK(month time.Time) string { return month.UTC().Format(pageMonth) + "#" }

// PageSK begins the sort keys of the pages of an entity in a month.
func PageSK(month time.Time, entity string) string { return PageMonthSK(month) + entity + "#" }

// Key is the key of the page.
func (p *Page) Key(ns string) Key {
	first, last := p.Entries[0].Hour, p.Entries[0].Hour
	for _, e := range p.Entries {
		first, last = min(first, e.Hour), max(last, e.Hour)
	}
	return Key{
		PagePK(ns, p.Resource, PagePart(p.Entity)),
		PageSK(Month(last), p.Entity) + diary.Start(first).Format(pageHour) + "-" + diary.Start(last).Format(pageHour) +
			"#" + strconv.Itoa(p.Shard) + "#" + strconv.FormatInt(p.Life, 10),
	}
}

// TextOf is the text of entries.
func TextOf(entries []diary.Entry) (text string) {
	for _, e := range entries {
		text = diary.Append(text, e)
	}
	return text
}

// EncodePage is the item of a page, which is kept until an instant, for ever if that is
// zero.
func EncodePage(ns string, p *Page, expires time.Time) Item {
	item := p.Key(ns).Item()
	item[EntityID], item[Resource], item[DiaryText] = S(p.Entity), S(p.Resource), S(TextOf(p.Entries))
	if !expires.IsZero() {
		item[TTL] = N(expires.Unix())
	}
	return item
}

// DecodePage reads the item of a page.
func DecodePage(item Item) (*Page, error) {
	p, ok := parsePageKey(KeyOf(item))
	if !ok {
		return nil, corrupt(item, SK, "it is not the key of a page of usage")
	}
	var err error
	if p.Entries, err = diary.Parse(str(item[DiaryText])); err != nil {
		return nil, corrupt(item, DiaryText, err.Error())
	}
	if len(p.Entries) == 0 {
		return nil, corrupt(item, DiaryText, "it is empty")
	}
	return p, nil
}

// pageKeyParts is the number of parts of the sort key of a page.
const pageKeyParts = 5

func parsePageKey(k Key) (*Page, bool) {
	_, path, _ := strings.Cut(k.PK, "/")
	path, isPage := strings.CutPrefix(path, pagePrefix)
	resource, _, _ := strings.Cut(path, "#")
	parts := strings.Split(k.SK, "#")
	if !isPage || len(parts) != pageKeyParts || store.CheckResource(resource) != nil || store.CheckEntity(parts[1]) != nil {
		return nil, false
	}
	shard, ok := parseShard(parts[3])
	life, err := strconv.ParseInt(parts[4], 10, 64)
	if !ok || err != nil {
		return nil, false
	}
	return &Page{Bucket: store.Bucket{Entity: parts[1], Resource: resource, Shard: shard}, Life: life}, true
}

// PageMonthsPK is the partition of the items that name the resources with pages.
func PageMonthsPK(ns string) string { return ns + "/" + pagePrefix }

// PageMonthKey is the key of the item that names the resources with pages of a month, as
// a set in the attribute [Resources].
func PageMonthKey(ns string, month time.Time) Key {
	return Key{PageMonthsPK(ns), month.UTC().Format(pageMonth)}
}

// DeletionKey is the key of the item that keeps what was deleted with an entity from coming
// back as pages. It is alone in its partition:
//
//	{ns}/USAGE##{entity}  deleted
func DeletionKey(ns, entity string) Key {
	return Key{PageMonthsPK(ns) + "#" + entity, "deleted"}
}

// EncodeDeletion is the item which says that an entity was deleted at an instant, with all
// lives of its buckets that began until then.
func EncodeDeletion(ns, entity string, at, expires time.Time) Item {
	item := DeletionKey(ns, entity).Item()
	item[EntityID], item[DeletedAt], item[TTL] = S(entity), N(at.UnixMilli()), N(expires.Unix())
	return item
}

// DecodeDeletion reads when an entity was deleted, in milliseconds.
func DecodeDeletion(item Item) (at int64, err error) {
	at, ok := integer(item[DeletedAt])
	if !ok {
		return 0, corrupt(item, DeletedAt, badNumber)
	}
	return at, nil
}

// DecodePageMonth reads the resources that have pages of a month.
func DecodePageMonth(item Item) (month time.Time, resources []string, err error) {
	month, err = time.Parse(pageMonth, KeyOf(item).SK)
	if err != nil {
		return time.Time{}, nil, corrupt(item, SK, "it is not a month")
	}
	return month, resourcesIn(item), nil
}
