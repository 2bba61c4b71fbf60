package metric

import (
	"encoding/json"
	"math"
)

// Number is a float64 in JSON. NaN and the infinities, which JSON lacks, are null. Every other value reads
// back the same.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if x := float64(n); math.IsNaN(x) || math.IsInf(x, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON implements json.Unmarshaler: null is NaN.
func (n *Number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}

// Scores are a metric on each part of a split, and the validation loss. They are NaN for a part without
// vertices.
type Scores struct{ Train, Val, Test, ValLoss float64 }

// Numbers are scores in JSON.
type Numbers struct {
	Train   Number `json:"train"`
	Val     Number `json:"val"`
	Test    Number `json:"test"`
	ValLoss Number `json:"val_loss"`
}

// Numbers returns the scores for JSON.
func (s Scores) Numbers() Numbers {
	return Numbers{Number(s.Train), Number(s.Val), Number(s.Test), Number(s.ValLoss)}
}

// Scores returns what Scores.Numbers was called with.
func (n Numbers) Scores() Scores {
	return Scores{float64(n.Train), float64(n.Val), float64(n.Test), float64(n.ValLoss)}
}

// Unmeasured are the scores where nothing was measured.
func Unmeasured() Scores {
	nan := math.NaN()
	return Scores{nan, nan, nan, nan}
}
