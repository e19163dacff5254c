package otellimit

// Instruments are all metrics.
var Instruments = all

// An Instrument describes a metric.
type Instrument = instrument
