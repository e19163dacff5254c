package logs

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Format is the form of a log's lines: one of those below, or a list of columns.
//
// A list of columns has a $name or ${name} for each column, and between them the text that
// stands between the values in the log: $host [$time] "$request" $status, as nginx has it.
// A value in quotes or in brackets may have spaces, and so may one before a bracket; any
// other next to a space is one word. In quotes, a backslash stands before a quote that does
// not end the value. \t is a tab. Columns behind ... may be absent at the end of a line, and
// more may follow them.
//
// Of a column request there are also the columns method, target, path and protocol. The column
// client_ip is the first address of forwarded_for or http_x_forwarded_for, if a line has one,
// and else client without its port, host or remote_addr. In all formats with a list of
// columns, the default for the time is "time", or that of nginx, and for the entity
// "client_ip".
type Format string

// The formats.
const (
	Detect   Format = ""               // from the first lines
	JSON     Format = "json"           // an object a line
	CSV      Format = "csv"            // with a header; separated by commas, semicolons, tabs or bars
	W3C      Format = "w3c"            // with a line #Fields: CloudFront, IIS
	Common   Format = "common"         // of Apache
	Combined Format = "combined"       // of Apache and nginx
	VHost    Format = "vhost_combined" // of Apache
	Main     Format = "main"           // of nginx's packages
	ALB      Format = "alb"            // AWS's application load balancer; the time is request_creation_time
	ELB      Format = "elb"            // AWS's classic load balancer
	Envoy    Format = "envoy"          // Envoy's default
)

const (
	commonColumns   = `$host $ident $user [$time] "$request" $status $bytes`
	combinedColumns = commonColumns + ` "$referer" "$user_agent"`
)

// lists are the formats that are lists of columns, in the order in which they are tried.
var lists = []struct {
	format  Format
	columns string
}{
	{Combined, combinedColumns},
	{Main, combinedColumns + ` "$forwarded_for"`},
	{Common, commonColumns},
	{VHost, `$vhost:$port ` + combinedColumns},
	{ALB, `$type $time $elb $client $target $request_processing_time $target_processing_time $response_processing_time ` +
		`$elb_status_code $target_status_code $received_bytes $sent_bytes "$request" "$user_agent" $ssl_cipher $ssl_protocol ` +
		`$target_group_arn "$trace_id" ... "$domain_name" "$chosen_cert_arn" $matched_rule_priority $request_creation_time ` +
		`"$actions_executed" "$redirect_url" "$error_reason" "$target_port_list" "$target_status_code_list" "$classification" ` +
		`"$classification_reason" $conn_trace_id "$transformed_host" "$transformed_uri" "$request_transform_status"`},
	{ELB, `$time $elb $client $backend $request_processing_time $backend_processing_time $response_processing_time ` +
		`$elb_status_code $backend_status_code $received_bytes $sent_bytes "$request" ... "$user_agent" $ssl_cipher $ssl_protocol`},
	{Envoy, `[$time] "$request" $status $flags $received_bytes $sent_bytes $duration $upstream_service_time ` +
		`"$forwarded_for" "$user_agent" "$request_id" "$authority" "$upstream_host"`},
}

// Formats are the formats with a name.
func Formats() []Format {
	all := []Format{JSON, CSV, W3C}
	for _, l := range lists {
		all = append(all, l.format)
	}
	return all
}

// Columns is the list of columns of a format, "" if the log names them.
func (f Format) Columns() string {
	for _, l := range lists {
		if l.format == f {
			return l.columns
		}
	}
	if strings.Contains(string(f), "$") {
		return string(f)
	}
	return ""
}

// Validate fails with a [store.ValidationError] if f is neither the name of a format, nor a
// list of columns.
func (f Format) Validate() error {
	if f == Detect || f == JSON || f == CSV || f == W3C {
		return nil
	}
	columns := f.Columns()
	if columns == "" {
		names := make([]string, 0, len(lists))
		for _, name := range Formats() {
			names = append(names, string(name))
		}
		return &store.ValidationError{
			Field: "format", Value: string(f), Reason: "give " + strings.Join(names, ", ") + `, or a list of columns: '$host [$time] "$request" $status'`,
		}
	}
	_, err := parsePattern(columns)
	return err
}
