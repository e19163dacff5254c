package estimate

// Accuracy is how far the units of an estimate may be from what the engine bills, as a share: so
// much too low, or so much too high. Tests hold it, for scenarios and for loads of few effects.
const Accuracy = 0.05
