package stackarg

import (
	"errors"
	"reflect"
	"sync"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/store"
)

// Spec checks options as [deploy.New] does. An error names the flag that sets the option.
func Spec(o deploy.Options) (*deploy.Spec, error) {
	spec, err := deploy.New(o)
	bad := (*store.ValidationError)(nil)
	if !errors.As(err, &bad) {
		return spec, err
	}
	if flag, ok := flagOf()[bad.Field]; ok {
		return nil, &store.ValidationError{Field: "--" + flag, Value: bad.Value, Reason: bad.Reason}
	}
	return nil, err
}

// flagOf are the names of flags by the names that validation errors give to options.
var flagOf = sync.OnceValue(func() map[string]string {
	var f Flags
	f.Bind(&cobra.Command{})
	f.options["Name"] = "name" // a flag of every command
	return f.options
})

// sets records which option a flag sets.
func sets[T any](f *Flags, flag string, field func(*deploy.Options) *T) {
	var o deploy.Options
	f.options[optionAt(reflect.ValueOf(&o).Elem(), reflect.ValueOf(field(&o)).Pointer())] = flag
}

// optionAt is the name of the field at an address, "Capacity.MinRead" for instance.
func optionAt(options reflect.Value, address uintptr) string {
	for i := range options.NumField() {
		field, name := options.Field(i), options.Type().Field(i).Name
		switch {
		case field.Kind() == reflect.Struct:
			if inner := optionAt(field, address); inner != "" {
				return name + "." + inner
			}
		case field.Addr().Pointer() == address:
			return name
		}
	}
	return ""
}
