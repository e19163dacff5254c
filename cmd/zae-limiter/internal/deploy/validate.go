package deploy

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/internal/parameter"
	"github.com/zeroae/zae-limiter-go/store"
)

// Defaults of options, which are also the defaults of the template's parameters.
const (
	// DefaultName is the default of Options.Name.
	DefaultName = "zae-limiter"

	defaultRetentionDays    = 90
	defaultGlacierDays      = 90
	defaultLogRetentionDays = 30
	defaultMemoryMB         = 256
	defaultTimeout          = time.Minute
	defaultQuiet            = 30 * time.Minute
	defaultBatchSize        = 100
	defaultBatchWindow      = 5 * time.Second
	defaultDurationPercent  = 80
	defaultMinCapacity      = 5
	defaultMaxCapacity      = 100
	defaultTargetPercent    = 70
)

// Bounds of options. Those of names are AWS's.
const (
	minNameChars               = 3
	maxNameChars, maxShortName = 53, 45 // of a stack without a provisioner, and of one that has it
	maxDays                    = 3650
	maxPITRDays                = 35
	minMemoryMB, maxMemoryMB   = 128, 3008
	maxTimeout                 = 15 * time.Minute
	minQuiet                   = time.Second
	maxBatchSize               = 10000
	maxBatchWithoutWindow      = 10
	maxBatchWindow             = 5 * time.Minute
	minTarget, maxTarget       = 20, 90
	maxConcurrency             = 10000
	maxCapacity                = 40000
	maxPercent                 = 100

	maxRoleChars, maxRoleFormatChars     = 64, 55
	maxPolicyChars, maxPolicyFormatChars = 128, 120

	// maxUserTags leaves room for the six tags of the project below CloudFormation's 50.
	maxUserTags      = 44
	maxTagKeyChars   = 128
	maxTagValueChars = 256
)

// LogRetentions are the periods for which CloudWatch Logs keeps logs, in days.
var LogRetentions = []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}

var (
	roleARN     = parameter.Pattern(`\Aarn:aws(-[a-z]+)*:iam::\d{12}:role/[\w+=,.@/-]+\z`)
	boundaryARN = parameter.Pattern(`\A(arn:aws(-[a-z]+)*:iam::(\d{12}|aws):policy/)?[\w+=,.@/-]+\z`)
	topicARN    = parameter.Pattern(`\Aarn:aws(-[a-z]+)*:sns:[a-z0-9-]+:\d{12}:[\w-]+(\.fifo)?\z`)
	keyARN      = parameter.Pattern(`\Aarn:aws(-[a-z]+)*:kms:[a-z0-9-]+:\d{12}:key/[\w-]+\z`)
	bucketName  = parameter.Pattern(`\A[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\z`)
	tagText     = parameter.Pattern(`\A[\p{L}\p{Z}\p{N}_.:/=+@-]*\z`)
	codeKey     = parameter.Pattern(`\A[\w!.*'()/-]+\z`)
)

func (o *Options) setDefaults() {
	o.Name, o.Version = cmp.Or(o.Name, DefaultName), cmp.Or(o.Version, "unknown")
	if o.Windows == nil {
		o.Windows = []string{"hourly", "daily"}
	}
	o.UsageRetentionDays = cmp.Or(o.UsageRetentionDays, defaultRetentionDays)
	o.GSI2Projection = cmp.Or(o.GSI2Projection, ProjectKeys)
	o.Architecture = cmp.Or(o.Architecture, ARM64)
	o.MemoryMB = cmp.Or(o.MemoryMB, defaultMemoryMB)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.LogLevel = cmp.Or(o.LogLevel, "info")
	o.LogRetentionDays = cmp.Or(o.LogRetentionDays, defaultLogRetentionDays)
	o.Quiet = cmp.Or(o.Quiet, defaultQuiet)
	o.BatchSize = cmp.Or(o.BatchSize, defaultBatchSize)
	o.BatchWindow = cmp.Or(o.BatchWindow, defaultBatchWindow)
	o.StartingPosition = cmp.Or(o.StartingPosition, FromTheStart)
	o.GlacierDays = cmp.Or(o.GlacierDays, defaultGlacierDays)
	o.DurationAlarmPercent = cmp.Or(o.DurationAlarmPercent, defaultDurationPercent)
	for _, format := range []*string{&o.RoleNameFormat, &o.PolicyNameFormat} {
		if *format == placeholder {
			*format = ""
		}
	}
	o.Capacity.setDefaults()
}

func (c *Capacity) setDefaults() {
	c.MinRead, c.MinWrite = cmp.Or(c.MinRead, defaultMinCapacity), cmp.Or(c.MinWrite, defaultMinCapacity)
	c.MaxRead, c.MaxWrite = cmp.Or(c.MaxRead, defaultMaxCapacity), cmp.Or(c.MaxWrite, defaultMaxCapacity)
	c.TargetPercent = cmp.Or(c.TargetPercent, defaultTargetPercent)
}

// validate reports the first option that is not acceptable.
func (o *Options) validate() error {
	return cmp.Or(
		o.checkName(), checkWindows(o.Windows),
		between("UsageRetentionDays", o.UsageRetentionDays, 1, maxDays),
		between("AuditRetentionDays", cmp.Or(o.AuditRetentionDays, defaultRetentionDays), 1, maxDays),
		o.Capacity.validate(),
		matches("KMSKeyARN", o.KMSKeyARN, keyARN, "give the ARN of a key, arn:aws:kms:REGION:ACCOUNT:key/ID"),
		among("GSI2Projection", o.GSI2Projection, ProjectKeys, ProjectAll),
		between("PITRDays", cmp.Or(o.PITRDays, maxPITRDays), 1, maxPITRDays),
		o.validateFunctions(), o.validateAlarms(), o.validateIAM(), checkTags(o.Tags),
	)
}

func (o *Options) validateFunctions() error {
	return cmp.Or(
		matches("CodeBucket", o.CodeBucket, bucketName, "give the name of an S3 bucket"),
		matches("CodeKey", o.CodeKey, codeKey, "give the key of the zip, as lambda-export --info shows it"),
		among("Architecture", o.Architecture, ARM64, AMD64),
		between("MemoryMB", o.MemoryMB, minMemoryMB, maxMemoryMB),
		checkTimeout(o.Timeout),
		between("ReservedConcurrency", o.ReservedConcurrency, 0, maxConcurrency),
		among("LogLevel", o.LogLevel, "debug", "info", "warn", "error"),
		checkLogRetention(o.LogRetentionDays), checkQuiet(o.Quiet),
		between("BatchSize", o.BatchSize, 1, maxBatchSize), o.checkBatchWindow(),
		among("StartingPosition", o.StartingPosition, FromTheStart, FromNow),
		between("GlacierDays", o.GlacierDays, 1, maxDays),
	)
}

func (o *Options) validateAlarms() error {
	return cmp.Or(
		matches("AlarmTopicARN", o.AlarmTopicARN, topicARN, "give the ARN of a topic, arn:aws:sns:REGION:ACCOUNT:NAME"),
		between("DurationAlarmPercent", o.DurationAlarmPercent, 1, maxPercent),
	)
}

func (o *Options) validateIAM() error {
	const aRole = "give the ARN of a role, arn:aws:iam::ACCOUNT:role/NAME"
	return cmp.Or(
		o.checkRoles(),
		matches("AggregatorRoleARN", o.AggregatorRoleARN, roleARN, aRole),
		matches("ProvisionerRoleARN", o.ProvisionerRoleARN, roleARN, aRole),
		matches("PermissionBoundary", o.PermissionBoundary, boundaryARN, "give the name or the ARN of a policy"),
		checkFormat("RoleNameFormat", o.RoleNameFormat, maxRoleFormatChars),
		checkFormat("PolicyNameFormat", o.PolicyNameFormat, maxPolicyFormatChars),
		o.checkNames(),
	)
}

func (c *Capacity) validate() error {
	return cmp.Or(
		between("Capacity.MinRead", c.MinRead, 1, maxCapacity), between("Capacity.MaxRead", c.MaxRead, c.MinRead, maxCapacity),
		between("Capacity.MinWrite", c.MinWrite, 1, maxCapacity), between("Capacity.MaxWrite", c.MaxWrite, c.MinWrite, maxCapacity),
		between("Capacity.TargetPercent", c.TargetPercent, minTarget, maxTarget),
	)
}

// checkRoles refuses roles where no policy is that they could have.
func (o *Options) checkRoles() error {
	switch {
	case !o.NoIAM:
		return nil
	case o.Roles:
		return invalid("Roles", "true", "the roles need the stack's policies, which are left out: make the policies, or leave out the roles")
	case o.NamespaceRoles:
		return invalid("NamespaceRoles", "true", "the roles need the stack's policies, which are left out: make the policies, or leave out the roles")
	}
	return nil
}

// checkNames checks the lengths of the names that the formats give.
func (o *Options) checkNames() error {
	roles := []Component{AggregatorRole, ProvisionerRole}
	if o.Roles {
		roles = append(roles, AppRole, AdminRole, ReadOnlyRole)
	}
	if o.NamespaceRoles {
		roles = append(roles, NamespaceAppRole, NamespaceAdminRole, NamespaceReadOnlyRole)
	}
	policies := []Component{AcquireOnlyPolicy, FullAccessPolicy, ReadOnlyPolicy, NamespaceAcquirePolicy, NamespaceFullAccessPolicy, NamespaceReadOnlyPolicy}
	return cmp.Or(
		o.fits("RoleNameFormat", o.RoleNameFormat, roles, maxRoleChars),
		o.fits("PolicyNameFormat", o.PolicyNameFormat, policies, maxPolicyChars),
	)
}

func (o *Options) fits(field, format string, of []Component, most int) error {
	for _, c := range of {
		name := formatted(format, o.Name, c)
		if over := len(name) - most; over > 0 {
			return invalid(field, format, fmt.Sprintf("it makes %s, which is %d characters too long: shorten it, or give a stack name of at most %d characters",
				name, over, len(o.Name)-over))
		}
	}
	return nil
}

// checkName checks the rules of stacks, tables and functions at once.
func (o *Options) checkName() error {
	const rule = "give 3 to 45 letters, digits and hyphens, the first a letter"
	at := strings.IndexFunc(o.Name, func(r rune) bool { return !isLetter(r) && !isDigit(r) && r != '-' })
	switch n := len(o.Name); {
	case at >= 0:
		r, _ := utf8.DecodeRuneInString(o.Name[at:])
		return invalid("Name", o.Name, fmt.Sprintf("%q is not allowed: %s", r, rule))
	case !isLetter(rune(o.Name[0])): // setDefaults has filled in an empty name
		return invalid("Name", o.Name, "it does not begin with a letter: "+rule)
	case n > maxShortName && n <= maxNameChars && !o.NoProvisioner:
		return invalid("Name", o.Name, fmt.Sprintf("it has %d characters, and the name of the provisioner would be too long: give at most %d, or leave out the provisioner", n, maxShortName))
	case n < minNameChars || n > maxNameChars:
		return invalid("Name", o.Name, fmt.Sprintf("it has %d characters: %s", n, rule))
	}
	return nil
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
func isDigit(r rune) bool  { return r >= '0' && r <= '9' }

func checkWindows(windows []string) error {
	const rule = "give some of hourly, daily and monthly, each once"
	if len(windows) == 0 {
		return invalid("Windows", "", rule)
	}
	for i, w := range windows {
		if !slices.Contains([]string{"hourly", "daily", "monthly"}, w) || slices.Contains(windows[:i], w) {
			return invalid("Windows", w, rule)
		}
	}
	return nil
}

func checkTimeout(t time.Duration) error {
	if t < time.Second || t > maxTimeout || t%time.Second != 0 {
		return invalid("Timeout", t.String(), "give whole seconds from 1s to 15m")
	}
	return nil
}

// checkBatchWindow checks the rules of Lambda for mappings of a stream.
func (o *Options) checkBatchWindow() error {
	switch w := o.BatchWindow; {
	case w > 0 && (w > maxBatchWindow || w%time.Second != 0):
		return invalid("BatchWindow", w.String(), "give whole seconds up to 5m, or 0 for none")
	case w < 0 && o.BatchSize > maxBatchWithoutWindow:
		return invalid("BatchWindow", "0s", fmt.Sprintf("Lambda takes more than %d records in a batch only with a window: give at least 1s, or a batch size of at most %d", maxBatchWithoutWindow, maxBatchWithoutWindow))
	}
	return nil
}

func checkQuiet(q time.Duration) error {
	if q > 0 && q < minQuiet {
		return invalid("Quiet", q.String(), "give at least 1s, or less than 0 to never merge")
	}
	return nil
}

func checkLogRetention(days int) error {
	if slices.Contains(LogRetentions, days) {
		return nil
	}
	return invalid("LogRetentionDays", strconv.Itoa(days), "CloudWatch Logs has only these periods: "+strings.Trim(fmt.Sprint(LogRetentions), "[]"))
}

// checkFormat checks a format of names; "" is none.
func checkFormat(field, format string, most int) error {
	switch {
	case format == "":
	case strings.Count(format, placeholder) != 1:
		return invalid(field, format, "put {} into it exactly once, where the name belongs")
	case len(format) > most:
		return invalid(field, format, fmt.Sprintf("it has %d characters: give at most %d", len(format), most))
	case strings.ContainsFunc(strings.Replace(format, placeholder, "", 1), func(r rune) bool {
		return !isLetter(r) && !isDigit(r) && !strings.ContainsRune("_+=,.@-", r)
	}):
		return invalid(field, format, `use letters, digits and "_+=,.@-" around {}`)
	}
	return nil
}

const tagRule = `use letters, digits, spaces and "_.:/=+-@"`

func checkTags(tags map[string]string) error {
	if len(tags) > maxUserTags {
		return invalid("Tags", strconv.Itoa(len(tags)), fmt.Sprintf("a stack has room for %d tags besides those of the project: leave some out", maxUserTags))
	}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		switch value := tags[key]; {
		case key == "" || utf8.RuneCountInString(key) > maxTagKeyChars:
			return invalid("Tags", key, fmt.Sprintf("give each tag a key of 1 to %d characters", maxTagKeyChars))
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return invalid("Tags", key, "AWS reserves keys that begin with aws: choose another key")
		case utf8.RuneCountInString(value) > maxTagValueChars:
			return invalid("Tags", key, fmt.Sprintf("its value has more than %d characters: shorten it", maxTagValueChars))
		case !tagText().MatchString(key):
			return invalid("Tags", key, tagRule)
		case !tagText().MatchString(value):
			return invalid("Tags", key, fmt.Sprintf("its value is %q: %s", value, tagRule))
		}
	}
	return nil
}

func between(field string, n, least, most int) error {
	if n >= least && n <= most {
		return nil
	}
	return invalid(field, strconv.Itoa(n), fmt.Sprintf("give %d to %d", least, most))
}

func among[T ~string](field string, value T, of ...T) error {
	if slices.Contains(of, value) {
		return nil
	}
	words := make([]string, len(of))
	for i, w := range of {
		words[i] = string(w)
	}
	return invalid(field, string(value), "choose from "+strings.Join(words, ", "))
}

// matches checks a value that may be empty.
func matches(field, value string, pattern func() *regexp.Regexp, rule string) error {
	if value == "" || pattern().MatchString(value) {
		return nil
	}
	return invalid(field, value, rule)
}

func invalid(field, value, reason string) error {
	return &store.ValidationError{Field: field, Value: value, Reason: reason}
}
