package house_test

// mayImport lists the packages of this project and of the SDK that a package may
// import, except in its tests. An entry is a folder and also covers the folders below
// it, except for the root. The longest entry that matches counts; a package without an
// entry fails. An allowed import that ends in /... includes everything below it.
// Dependencies point one way: what runs on a store, the limiter, drivers,
// process, memory and plan, store, bucket. The engine
// stands apart and knows nothing of limits. The program stands on the library.
var mayImport = map[string][]string{
	// Users meet this one; it is thin.
	".": {"internal/acquire", "internal/calls", "internal/outage", "internal/plan", "internal/process", "internal/token", "internal/waiting", "store"},

	// The drivers.
	"internal/acquire": {"internal/calls", "internal/lane", "internal/ledger", "internal/memory", "internal/outage", "internal/plan", "internal/process", "internal/slots", "internal/token", "internal/upkeep", "internal/bucket", "store"},
	"internal/upkeep":  {"internal/memory", "internal/plan", "internal/process", "store"},

	// The process: its store, configuration, clocks and goroutines.
	"internal/process": {"internal/calls", "internal/config", "internal/ledger", "internal/memory", "internal/plan", "store"},
	"internal/config":  {"internal/calls", "internal/memory", "internal/plan", "store"},

	// What a process admits while the store is away: no clock, no I/O.
	"internal/ledger": {"internal/plan", "store"},
	"internal/outage": {"internal/bucket", "internal/memory", "internal/plan", "store"},

	// Memory does no I/O. The plan has no clock and no lock.
	"internal/memory": {"internal/bucket", "internal/calls", "internal/plan", "store"},
	"internal/plan":   {"internal/bucket", "internal/diary", "store"},
	"internal/lane":   {"internal/calls"},
	"internal/slots":  {"store"},
	"internal/token":  {"store"},
	"internal/calls":  {},
	// The order of callers that wait for tokens has no clock and no I/O.
	"internal/waiting": {},

	// The contract, and the arithmetic.
	"store":             {"internal/calendar"},
	"store/storetest":   {".", "store", "internal/diary"},
	"internal/bucket":   {"internal/calendar"},
	"internal/calendar": {},
	"internal/diary":    {"store"},

	// The store on DynamoDB.
	"dynamo":                     {"store", "dynamo/audit", "dynamo/usage", "dynamo/internal/conn", "dynamo/internal/direct", "dynamo/internal/expression", "dynamo/internal/namespace", "internal/bucket", "internal/calls", "internal/diary", "internal/process", "internal/schema", "internal/upkeep", sdk + "/..."},
	"dynamo/admin":               {"store", "dynamo", "dynamo/audit", "dynamo/stream", "dynamo/usage", "dynamo/internal/conn", "dynamo/internal/namespace", "internal/schema", sdk + "/..."},
	"dynamo/stream":              {"store", "dynamo", "dynamo/audit", "dynamo/internal/conn", "dynamo/internal/plainjson", "internal/schema", sdk + "/..."},
	"dynamo/usage":               {"store", "dynamo/internal/conn", "internal/diary", "internal/schema", sdk + "/..."},
	"dynamo/audit":               {"store", "dynamo/internal/conn", "internal/schema", sdk + "/..."},
	"dynamo/fastclient":          {"dynamo/fastclient/internal/...", "dynamo/internal/direct", "dynamo/internal/plainjson", "internal/calls", sdk + "/..."},
	"dynamo/internal/direct":     {sdkDB},
	"dynamo/internal/plainjson":  {},
	"dynamo/internal/conn":       {"dynamo/internal/direct", "internal/awsauth", "internal/calls", "store", "internal/schema", sdk + "/..."},
	"dynamo/internal/expression": {"dynamo/internal/direct", "store", "internal/schema", sdkDB + "/types"},
	"dynamo/internal/namespace":  {"store", "dynamo/audit", "dynamo/internal/conn", "internal/schema", sdk + "/..."},
	"dynamo/internal/fixture":    {"store", "dynamo", "dynamo/audit", "dynamolite", help + "faults", help + "testbed", "internal/schema", sdk + "/..."},
	"internal/schema":            {"internal/calendar", "internal/diary", "store", sdkDB + "/types"},
	// The codes with which AWS refuses credentials.
	"internal/awsauth": {},

	// The engine. Each line may use the lines below it: a facade, what executes requests, the
	// tables and the order of their writes, what is at rest, and what knows of no table.
	"dynamolite":            {engine + "...", sdk + "/..."},
	engine + "sweep":        {engine + "catalog", engine + "request", engine + "history", engine + "table", engine + "storage"},
	engine + "transact":     {engine + "request", engine + "history", engine + "table", engine + "storage", engine + "api", engine + "expr", engine + "value", engine + "wall", sdk + "/..."},
	engine + "request":      {engine + "catalog", engine + "history", engine + "table", engine + "storage", engine + "api", engine + "expr", engine + "value", engine + "wall", engine + "journal", sdk + "/..."},
	engine + "catalog":      {engine + "history", engine + "table", engine + "streams", engine + "storage", engine + "api", engine + "journal", engine + "wall", sdk + "/..."},
	engine + "history":      {engine + "table", engine + "streams", engine + "storage", engine + "api", engine + "journal", sdk + "/..."},
	engine + "table":        {engine + "streams", engine + "storage", engine + "api", engine + "stream", engine + "value", engine + "wall", engine + "journal", sdk + "/..."},
	engine + "streams":      {engine + "storage", engine + "api", engine + "stream", engine + "value", engine + "journal", sdk + "/..."},
	engine + "storage":      {engine + "api", engine + "value", engine + "wall", engine + "journal", sdk + "/..."},
	engine + "api":          {engine + "expr", engine + "value", engine + "journal", sdk + "/..."},
	engine + "server":       {engine + "api", engine + "sigv4", engine + "wire", sdk + "/..."},
	engine + "expr":         {engine + "value", sdk + "/..."},
	engine + "value":        {sdk + "/..."},
	engine + "wire":         {sdk + "/..."},
	engine + "sigv4":        {},
	engine + "journal":      {},
	engine + "stream":       {},
	engine + "wall":         {},
	engine + "differential": {},

	// Packages that run on a store.
	"aggregator":        {"store", "dynamo/audit", "dynamo/stream", "dynamo/usage", "internal/diary", "internal/plan", "internal/process", "internal/upkeep", lru},
	"aggregator/lambda": {"aggregator", "dynamo/stream", sdk + "/service/dynamodbstreams/types"},

	// Servers and clients of every protocol.
	"middleware/httplimit":          {".", "store", "middleware/internal/..."},
	"middleware/grpclimit":          {".", "store", "middleware/httplimit", "middleware/internal/..."}, // a module of its own
	"middleware/internal/admission": {"."},
	"middleware/internal/hold":      {lru},

	"metrics/promlimit":       {".", "store", "metrics/internal/labels"},
	"metrics/otellimit":       {".", "store", "metrics/internal/labels"}, // a module of its own
	"metrics/internal/labels": {".", "store"},

	// Help for tests.
	"limitertest":      {".", "dynamo", "dynamolite", help + "faults", help + "testbed", sdkDB + "/types"},
	help + "sim":       {".", "store", "aggregator", "dynamo", "dynamolite", "internal/bucket", sdk + "/..."},
	help + "peers":     {sdk + "/..."},
	help + "dated":     {"internal/calls", sdk + "/..."},
	help + "faults":    {"internal/calls", "store", "dynamo", "internal/schema", sdk + "/..."},
	help + "testbed":   {".", "internal/calls", "internal/process", "internal/upkeep", "store", "dynamo", "dynamolite", help + "faults"},
	help + "pipes":     {},
	help + "child":     {},
	help + "routers":   {}, // tests only; a module of its own
	help + "house":     {},
	help + "histories": {"pgregory.net/rapid"},

	"examples": {".", "dynamo", "dynamolite"},
	"deploy":   {}, // a module of its own, which builds the program by its command

	// The program. Files and spellings:
	program + "yamlfile": {"store"},
	program + "limitarg": {"store"},
	program + "chart":    {program + "limitarg"},

	// What it does.
	program + "archive":                 {"store", "internal/awsauth", "dynamo/audit", sdk + "/aws", sdk + "/service/s3/..."},
	program + "redrive":                 {"store", "aggregator", "dynamo/stream", sdk + "/aws", sdk + "/service/sqs/..."},
	program + "replay":                  {"store", program + "limitarg", "internal/bucket"},
	program + "replay/logs":             {program + "replay", "store"},
	program + "estimate":                {".", "store", "aggregator", "dynamo", "dynamo/admin", "dynamo/stream", "dynamolite", "internal/diary", program + "drive/...", program + "virtual", program + "scenario", sdk + "/..."},
	program + "loadtest":                {".", "store", "internal/bucket", "dynamo", "dynamo/admin", "dynamolite", program + "estimate", program + "drive/...", "internal/schema", program + "loadtest/result", program + "scenario", sdk + "/..."},
	program + "loadtest/compare":        {"store", program + "loadtest/result"},
	program + "loadtest/report":         {program + "chart", program + "limitarg", program + "loadtest/result", program + "loadtest/swarm"},
	program + "loadtest/result":         {program + "limitarg"},
	program + "loadtest/fleet":          {"internal/calls", "store", program + "loadtest/swarm"},
	program + "loadtest/swarm":          {"internal/calls", "store"},
	program + "drive":                   {"internal/calls", ".", "store", "dynamo", program + "drive/setup", "internal/schema", program + "scenario", sdk + "/..."},
	program + "drive/setup":             {"internal/calls", "store", "dynamo", program + "scenario"},
	program + "virtual":                 {},
	program + "loadtest/search":         {"store", program + "loadtest/result"},
	program + "scenario":                {"store", program + "limitarg", program + "yamlfile"},
	program + "loadtest/locust":         {"store"},
	program + "loadtest/locust/perform": {".", "store", program + "drive/...", program + "loadtest/locust", program + "scenario"},
	program + "manifest":                {"store", "dynamo/...", program + "limitarg", program + "yamlfile"},
	program + "manifest/customresource": {"internal/calls", program + "manifest", "store", "dynamo/..."},
	program + "deploy":                  {"store", program + "deploy/option"},
	program + "deploy/option":           {"store"},
	program + "deploy/loadstack":        {"store", program + "deploy", program + "deploy/option", program + "loadtest/fleet"},
	program + "deploy/health":           {"internal/awsauth", "store", "dynamo", "dynamo/admin", "aggregator/lambda", program + "deploy/stack", sdk + "/..."},
	program + "deploy/stack":            {"internal/awsauth", "store", "dynamo", "dynamo/admin", program + "deploy/template", sdk + "/..."},
	program + "deploy/template":         {},
	program + "service/decide":          {".", "store", program + "limitarg"},
	program + "service/manage":          {".", "store", "dynamo", "dynamo/admin", "dynamo/audit", "dynamo/usage", "internal/plan", "internal/schema", program + "limitarg", program + "manifest", program + "service/decide"},
	program + "service/refusals":        {"."},
	program + "service/httpapi":         {".", "store", "dynamo", "dynamo/admin", "dynamo/audit", "dynamo/usage", "middleware/httplimit", program + "manifest", program + "service/decide", program + "service/manage", program + "service/refusals", program + "service/tracing"},
	program + "service/page":            {".", "store", "dynamo", "dynamo/audit", "dynamo/usage", program + "chart", program + "limitarg", program + "service/access", program + "service/httpapi", program + "service/manage", program + "service/refusals"},
	program + "service/hot":             {},
	program + "service/access":          {"store", program + "service/hot", lru},
	program + "service/mapping":         {".", "store", program + "service/hot", program + "yamlfile"},
	program + "service/envoy":           {".", "store", "middleware/httplimit", program + "service/decide", program + "service/hot", program + "service/httpapi", program + "service/mapping", program + "service/refusals", program + "service/tracing"},
	program + "service/xds":             {program + "service/hot", program + "service/mapping"},
	program + "service/tracing":         {".", "metrics/otellimit"},
	program + "service/server":          {".", program + "service/access", program + "service/hot", program + "service/httpapi", program + "service/page", program + "service/tracing"},

	// Its surface.
	program + "cli":   {".", "store", "internal/...", "aggregator/...", "dynamo/...", "dynamolite", "metrics/promlimit", program + "...", sdk + "/..."},
	"cmd/zae-limiter": {program + "cli", program + "cli/app"},

	// Its tests. Permissions: what IAM judges about requests, and the tables made of it.
	program + "test/cfntest":             {program + "deploy/template", sdk + "/..."},
	program + "test/cloudtest":           {sdk + "/..."},
	program + "test/s3test":              {help + "peers", sdk + "/..."},
	program + "test/doctest":             {},
	program + "test/documents":           {},
	program + "test/elftest":             {},
	program + "test/optiontest":          {"store", program + "deploy/option"},
	program + "test/resulttest":          {program + "loadtest/result"},
	program + "test/rolecreds":           {},
	program + "test/conformance":         {},
	program + "test/conformance/account": {"store", program + "deploy/stack"},
	program + "test/benchload":           {},
	program + "test/benchservice":        {},
	program + "test/iamtrace":            {"internal/schema", sdk + "/..."},
	program + "test/permissions":         {help + "faults", program + "test/iamtrace", "internal/schema", sdk + "/..."},
}
