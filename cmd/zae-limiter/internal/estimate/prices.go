package estimate

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/store"
)

//go:embed prices.yaml
var builtIn []byte

// A Price is one row of a table of prices.
type Price struct {
	Dollars float64 `json:"price" yaml:"price"` // US dollars
	// Date is the day on which somebody wrote the row down, and Source the page of the price.
	Date   string `json:"date" yaml:"date"`
	Source string `json:"source" yaml:"source"` // where the price is published
}

// Prices are the prices of one region, in dollars.
type Prices struct {
	WriteUnits    Price `json:"write_units_million" yaml:"write_units_million"`       // on demand
	ReadUnits     Price `json:"read_units_million" yaml:"read_units_million"`         // on demand
	WriteCapacity Price `json:"write_capacity_hour" yaml:"write_capacity_hour"`       // provisioned
	ReadCapacity  Price `json:"read_capacity_hour" yaml:"read_capacity_hour"`         // provisioned
	Storage       Price `json:"storage_gb_month" yaml:"storage_gb_month"`             // storage of a gigabyte for a month
	FunctionCalls Price `json:"function_calls_million" yaml:"function_calls_million"` // a million calls of AWS Lambda
	FunctionTime  Price `json:"function_gb_second" yaml:"function_gb_second"`         // a gigabyte second of AWS Lambda
	Logs          Price `json:"log_gb" yaml:"log_gb"`                                 // a gigabyte of logs
}

// BuiltIn is the table of prices that comes with the package. It has us-east-1.
func BuiltIn(region string) (*Prices, error) {
	return ParsePrices("the built-in prices", builtIn, region)
}

// ParsePrices reads the prices of a region from a table in YAML or JSON, as prices.yaml
// has it. file is its name in errors. Every price needs a date and a source. It fails with
// a [store.ValidationError] that names the field.
func ParsePrices(file string, text []byte, region string) (*Prices, error) {
	var table struct {
		Regions map[string]*Prices `yaml:"regions"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&table); err != nil && !errors.Is(err, io.EOF) { // an empty file has no regions
		return nil, fmt.Errorf("read %s: give regions and their prices, as the table cmd/zae-limiter/internal/estimate/prices.yaml has them: %w", file, err)
	}
	p := table.Regions[region]
	if p == nil {
		has := file + " has no regions"
		if len(table.Regions) > 0 {
			has = "the regions of " + file + " are " + strings.Join(slices.Sorted(maps.Keys(table.Regions)), ", ")
		}
		return nil, &store.ValidationError{Field: "region", Value: region, Reason: has + ": give a table with this region"}
	}
	for name, row := range p.rows() {
		_, err := time.Parse(time.DateOnly, row.Date)
		switch {
		case !(row.Dollars > 0) || math.IsInf(row.Dollars, 0):
			return nil, invalid("price of "+name, row.Dollars, "give dollars, more than 0")
		case err != nil:
			return nil, &store.ValidationError{Field: "date of " + name, Value: row.Date, Reason: "give the day of the price, 2026-01-02 for instance"}
		case row.Source == "":
			return nil, &store.ValidationError{Field: "source of " + name, Reason: "name the page of the price"}
		}
	}
	return p, nil
}

// rows are the prices by the name of their row.
func (p *Prices) rows() map[string]Price {
	return map[string]Price{
		"write_units_million": p.WriteUnits, "read_units_million": p.ReadUnits,
		"write_capacity_hour": p.WriteCapacity, "read_capacity_hour": p.ReadCapacity,
		"storage_gb_month": p.Storage, "function_calls_million": p.FunctionCalls,
		"function_gb_second": p.FunctionTime, "log_gb": p.Logs,
	}
}

// Oldest is the date of the oldest price.
func (p *Prices) Oldest() string {
	oldest := p.WriteUnits.Date
	for _, row := range p.rows() {
		oldest = min(oldest, row.Date)
	}
	return oldest
}
