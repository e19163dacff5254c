package schema

import (
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Names of the attributes of a checkpoint.
const (
	Sequence = "sequence" // S, of the last processed record; absent before the first
	Finished = "finished" // BOOL, the shard was read to its end
)

const (
	readerPrefix      = "/STREAM#"
	streamShardPrefix = "#SHARD#"
)

// NamespaceOf is the namespace id at the start of a partition key, "" if there is none.
func NamespaceOf(pk string) string {
	ns, _, ok := strings.Cut(pk, "/")
	if !ok {
		return ""
	}
	return ns
}

// A Checkpoint is the position of a reader in one shard of the table's stream.
type Checkpoint struct {
	Shard    string
	Sequence string // "" before the first record
	Finished bool
	Updated  time.Time
	// Expires is when the checkpoint may be swept: by then the stream has dropped the
	// shard.
	Expires time.Time
}

// CheckpointPK is the partition of a reader's checkpoints.
func CheckpointPK(reader string) string { return TableNamespace + readerPrefix + reader }

// EncodeCheckpoint is the item of a checkpoint.
func EncodeCheckpoint(reader string, c Checkpoint) Item {
	item := Key{CheckpointPK(reader), streamShardPrefix + c.Shard}.Item()
	if c.Sequence != "" {
		item[Sequence] = S(c.Sequence)
	}
	item[Finished], item[UpdatedAt], item[TTL] = Bool(c.Finished), S(Timestamp(c.Updated)), N(c.Expires.Unix())
	return item
}

// DecodeCheckpoint reads the item of a checkpoint.
func DecodeCheckpoint(item Item) (Checkpoint, error) {
	shard, ok := strings.CutPrefix(KeyOf(item).SK, streamShardPrefix)
	if !ok || shard == "" {
		return Checkpoint{}, corrupt(item, SK, "it is not the key of a checkpoint")
	}
	c := Checkpoint{Shard: shard, Sequence: str(item[Sequence])}
	if b, isBool := item[Finished].(*types.AttributeValueMemberBOOL); isBool && b != nil {
		c.Finished = b.Value
	}
	if at, err := ParseTimestamp(str(item[UpdatedAt])); err == nil {
		c.Updated = at
	}
	if s, ok := integer(item[TTL]); ok {
		c.Expires = time.Unix(s, 0)
	}
	return c, nil
}
