package train

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is an amount of memory. Its text form is a number with a unit, decimal (kB, MB, GB, TB) or binary (KiB, MiB, GiB, TiB),
// or "none" for 0.
type Bytes int64

var byteUnits = []struct {
	name string
	size float64
}{ // binary units first: "GiB" must not be read as an unknown number before "B"
	{"tib", 1 << 40}, {"gib", 1 << 30}, {"mib", 1 << 20}, {"kib", 1 << 10},
	{"tb", 1e12}, {"gb", 1e9}, {"mb", 1e6}, {"kb", 1e3}, {"b", 1}, {"", 1},
}

// ParseBytes reads "4GiB", "512MB", "1.5 GB", "1000000" or "none".
func ParseBytes(text string) (Bytes, error) {
	lower := strings.ToLower(strings.TrimSpace(text))
	if lower == "none" {
		return 0, nil
	}
	for _, unit := range byteUnits {
		number, ok := strings.CutSuffix(lower, unit.name)
		if !ok {
			continue
		}
		x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if x *= unit.size; err != nil || !(x >= 0 && x < math.MaxInt64) {
			break
		}
		return Bytes(x), nil
	}
	return 0, errors.New("must be an amount of memory as in 4GiB or 512MB, or none")
}

// String writes the amount so that ParseBytes reads the same amount: in the largest binary unit that divides it.
func (b Bytes) String() string {
	if b == 0 {
		return "none"
	}
	for _, unit := range byteUnits[:4] {
		if size := Bytes(unit.size); b%size == 0 {
			return fmt.Sprintf("%d%siB", b/size, strings.ToUpper(unit.name[:1]))
		}
	}
	return fmt.Sprintf("%dB", int64(b))
}
