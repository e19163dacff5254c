package schema

import (
	"crypto/sha256"
	"strconv"
)

// IndexPartitions is the number of partition keys over which the entries of buckets are spread
// in GSI2, for each resource, and in GSI4, for each namespace (ADR 041). 10,000 new buckets a
// second are 625 writes a second for each, of the 1,000 that a partition takes. It cannot change:
// readers of other versions ask for so many.
const IndexPartitions = 16

const partitionOfNamespace = "/NAMESPACE#"

// bucketIndexPKs are the partition keys of an entity's buckets in GSI2 and GSI4. If they are not
// spread, they are the peer's.
//
// The hash begins with the random ID of the namespace. So an attacker cannot invent entities that
// all have the same partition key. Every shard of a bucket has the same keys.
func bucketIndexPKs(ns, entity, resource string, isSpread bool) (gsi2, gsi4 string) {
	if !isSpread {
		return ResourcePK(ns, resource), ns
	}
	h := sha256.Sum256([]byte(ns + "/" + entity))
	n := strconv.Itoa(int(h[0]) % IndexPartitions)
	return ResourcePK(ns, resource) + "#" + n, ns + partitionOfNamespace + n
}

// ResourceIndexPKs are all partition keys in GSI2 of a resource's buckets. The first one is the
// peer's.
func ResourceIndexPKs(ns, resource string) []string {
	return partitions(ResourcePK(ns, resource), ResourcePK(ns, resource)+"#")
}

// NamespaceIndexPKs are all partition keys in GSI4 of a namespace's items. The first one is the
// peer's. The others have buckets only.
func NamespaceIndexPKs(ns string) []string { return partitions(ns, ns+partitionOfNamespace) }

func partitions(peers, prefix string) []string {
	pks := append(make([]string, 0, 1+IndexPartitions), peers)
	for n := range IndexPartitions {
		pks = append(pks, prefix+strconv.Itoa(n))
	}
	return pks
}
