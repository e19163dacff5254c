package rolecreds_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

const (
	session = "a session" // of the metadata of EC2
	sesame  = "sesame"    // the token that a container has
	table   = "limits"
)

// A machine gives the credentials of its role: as EC2 (IMDSv2), and as ECS and EKS give them
// to a container.
type machine struct {
	*httptest.Server
	// silent makes the machine wait for its end, after it has called the function.
	silent func()
	end    chan struct{}

	mu      sync.Mutex
	id      string // of the present access key
	expires time.Time
	down    bool // every connection breaks
	asked   int  // how often credentials were asked for
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{end: make(chan struct{})}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	m.Config.SetKeepAlivesEnabled(false) // package http repeats a request over a connection that was kept
	t.Cleanup(func() { close(m.end); m.Close() })
	return m
}

// give changes the credentials.
func (m *machine) give(id string, expires time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id, m.expires = id, expires
}

func (m *machine) setDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

// questions returns how often credentials were asked for, and begins to count again.
func (m *machine) questions() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.asked
	m.asked = 0
	return n
}

func secretOf(id string) string { return "secret of " + id }

func tokenOf(id string) string { return "token of " + id }

func (m *machine) serve(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	id, expires, down := m.id, m.expires, m.down
	m.mu.Unlock()
	if m.silent != nil {
		m.silent()
		<-m.end
	}
	if down {
		m.count()
		panic(http.ErrAbortHandler)
	}
	const ttl, roles = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "/latest/meta-data/iam/security-credentials/"
	onMachine := r.Header.Get("X-Aws-Ec2-Metadata-Token") == session
	switch r.Method + " " + r.URL.Path {
	case "PUT /latest/api/token":
		w.Header().Set(ttl, r.Header.Get(ttl))
		_, _ = w.Write([]byte(session))
		return
	case "GET " + roles:
		if onMachine {
			_, _ = w.Write([]byte("a-role"))
			return
		}
	case "GET " + roles + "a-role", "GET /container":
		if onMachine || r.URL.Path == "/container" && r.Header.Get("Authorization") == sesame {
			m.count()
			_ = json.NewEncoder(w).Encode(map[string]string{
				"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": expires.UTC().Format(time.RFC3339),
				"AccessKeyId": id, "SecretAccessKey": secretOf(id), "Token": tokenOf(id), "Expiration": expires.UTC().Format(time.RFC3339),
			})
			return
		}
	}
	w.WriteHeader(http.StatusUnauthorized)
}

func (m *machine) count() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
}

// sources are the environments in which the SDK finds the role's credentials.
var sources = map[string]func(t *testing.T, m *machine){
	"EC2": func(t *testing.T, m *machine) {
		t.Helper()
		t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
		t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", m.URL)
	},
	"container": func(t *testing.T, m *machine) {
		t.Helper()
		t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", m.URL+"/container")
		t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", sesame)
	},
}

// A database is an engine that knows some access keys. It notes who asked.
type database struct {
	*httptest.Server
	engine *dynamolite.DB

	mu       sync.Mutex
	accepted map[string]string // secrets by access key
	arrived  func(n int)       // is told of each request
	signers  []string          // access keys of the requests
	foreign  int               // requests that the SDK made
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	d := &database{engine: dynamolite.New(dynamolite.Options{})}
	if err := dynamo.CreateTable(t.Context(), d.engine, dynamo.TableOptions{Name: table}); err != nil {
		t.Fatal(err)
	}
	d.Server = httptest.NewServer(http.HandlerFunc(d.serve))
	t.Cleanup(func() {
		d.Close()
		if err := d.engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// accept names the access keys that are valid.
func (d *database) accept(ids ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.accepted = make(map[string]string, len(ids))
	for _, id := range ids {
		d.accepted[id] = secretOf(id)
	}
}

func (d *database) serve(w http.ResponseWriter, r *http.Request) {
	_, signed, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	id, _, _ := strings.Cut(signed, "/")
	d.mu.Lock()
	d.signers = append(d.signers, id)
	n, arrived, accepted := len(d.signers), d.arrived, d.accepted
	if r.Header.Get("Amz-Sdk-Invocation-Id") != "" {
		d.foreign++
	}
	d.mu.Unlock()
	if arrived != nil {
		arrived(n)
	}
	if r.Header.Get("X-Amz-Security-Token") != tokenOf(id) {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	dynamolite.NewHandler(d.engine, dynamolite.HandlerOptions{Credentials: accepted}).ServeHTTP(w, r)
}

// taken returns who signed the requests since it was called last. It checks that the client
// made them itself.
func (d *database) taken(t *testing.T) []string {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	signers := d.signers
	if d.foreign > 0 {
		t.Errorf("the SDK made %d of %d requests", d.foreign, len(signers))
	}
	d.signers, d.foreign = nil, 0
	return signers
}

// by is a number of requests that the same key signed.
func by(id string, n int) []string { return slices.Repeat([]string{id}, n) }

// load reads the configuration as a program in such an environment does. Nothing is tried
// twice: no second attempt hides a failure, and no test waits for one.
func load(t *testing.T, m *machine, d *database, source string) aws.Config {
	t.Helper()
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "HTTP_PROXY", "http_proxy",
	} {
		t.Setenv(name, "")
	}
	nowhere := t.TempDir() + "/none"
	t.Setenv("AWS_CONFIG_FILE", nowhere)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", nowhere)
	t.Setenv("AWS_REGION", "eu-west-1")
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", d.URL)
	sources[source](t, m)
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// write sends an update.
func write(ctx context.Context, c dynamo.API) error {
	_, err := c.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String(table), UpdateExpression: aws.String("SET v = :v"),
		Key:                       map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: "a"}, "SK": &types.AttributeValueMemberS{Value: "b"}},
		ExpressionAttributeValues: map[string]types.AttributeValue{":v": &types.AttributeValueMemberN{Value: "1"}},
	})
	return err
}
