package fastclient

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strconv"
	"sync"
	"time"

	"github.com/aws/smithy-go"
)

const (
	signAlgorithm = "AWS4-HMAC-SHA256"
	signEnd       = "aws4_request"
	signTime      = "20060102T150405Z"
	signDay       = 8 // the length of the day at the beginning of a signTime
	target        = "DynamoDB_20120810."

	authorizationHeader = "Authorization"
	amzDateHeader       = "X-Amz-Date"
	amzTokenHeader      = "X-Amz-Security-Token"
)

// A signBuffer is the working memory for one signature.
type signBuffer struct {
	head, text []byte
	sum        [sha256.Size]byte
}

// headRoom is enough for the headers that change, without the names of credentials,
// region and service.
const headRoom = 512

// request returns a request as it is sent: the head and the body in one piece. It is
// valid until the next call. It reports whether the SDK would have sent the same.
//
// The head comes before the body and depends on it. So the body is written behind some
// room, and the head is copied to the end of that room.
func (w *scratch) request(r *route, operation string, in smithy.Serializable, at time.Time) (all []byte, plain bool) {
	room := headRoom + len(r.head) + len(r.credentials.AccessKeyID) + len(r.scope)
	w.body.Start(room)
	in.Serialize(&w.body)
	all, plain = w.body.Done()
	w.sign.write(r, operation, w.body.Bytes(), at)
	begin := room - len(w.sign.head)
	if !plain || begin < 0 {
		return nil, false
	}
	copy(all[begin:], w.sign.head)
	return all[begin:], true
}

// write writes the head of a request with its signature.
func (b *signBuffer) write(r *route, operation string, body []byte, at time.Time) {
	var room [len(signTime)]byte
	date := at.UTC().AppendFormat(room[:0], signTime)
	key := r.keyFor(date[:signDay])
	sum := sha256.Sum256(body)

	text := append(b.text[:0], "POST\n/\n\naccept-encoding:"...)
	text = append(append(text, r.encoding...), "\ncontent-length:"...)
	text = append(strconv.AppendInt(text, int64(len(body)), 10), "\ncontent-type:"...)
	text = append(append(text, r.contentType...), "\nhost:"...)
	text = append(append(text, r.host...), "\nx-amz-date:"...)
	text = append(text, date...)
	names := "accept-encoding;content-length;content-type;host;x-amz-date;x-amz-target"
	if token := r.credentials.SessionToken; token != "" {
		names = "accept-encoding;content-length;content-type;host;x-amz-date;x-amz-security-token;x-amz-target"
		text = append(append(text, "\nx-amz-security-token:"...), token...)
	}
	text = append(append(append(text, "\nx-amz-target:"+target...), operation...), "\n\n"...)
	text = append(append(text, names...), '\n')
	text = hex.AppendEncode(text, sum[:])
	sum = sha256.Sum256(text)

	text = append(text[:0], signAlgorithm+"\n"...)
	text = append(append(text, date...), '\n')
	text = append(append(append(text, date[:signDay]...), '/'), r.scope...)
	text = hex.AppendEncode(append(text, '\n'), sum[:])
	b.text = text

	head := append(append(b.head[:0], r.head...), "Content-Length: "...)
	head = append(strconv.AppendInt(head, int64(len(body)), 10), "\r\n"+amzDateHeader+": "...)
	head = append(append(head, date...), "\r\nX-Amz-Target: "+target...)
	head = append(append(head, operation...), "\r\n"+authorizationHeader+": "+signAlgorithm+" Credential="...)
	head = append(append(head, r.credentials.AccessKeyID...), '/')
	head = append(append(append(head, date[:signDay]...), '/'), r.scope...)
	head = append(append(head, ", SignedHeaders="...), names...)
	head = hex.AppendEncode(append(head, ", Signature="...), key.sum(b.sum[:0], text))
	b.head = append(head, "\r\n\r\n"...)
}

// A signingKey signs for a day.
type signingKey struct {
	day  string
	macs sync.Pool // of hash.Hash
}

// keyFor returns the key for a day: the last one, or a new one.
func (r *route) keyFor(day []byte) *signingKey {
	if k := r.key.Load(); k != nil && k.day == string(day) {
		return k
	}
	k := &signingKey{day: string(day)}
	key := []byte("AWS4" + r.credentials.SecretAccessKey)
	for _, part := range []string{k.day, r.region, r.service, signEnd} {
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	k.macs.New = func() any { return hmac.New(sha256.New, key) }
	r.key.Store(k)
	return k
}

// sum appends the signature of a text.
func (k *signingKey) sum(to, text []byte) []byte {
	mac, _ := k.macs.Get().(hash.Hash)
	defer k.macs.Put(mac)
	mac.Reset()
	_, _ = mac.Write(text)
	return mac.Sum(to)
}
