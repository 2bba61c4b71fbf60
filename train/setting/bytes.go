package setting

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"weft/internal/number"
)

// Bytes is an amount of memory. Its text form is a number with a unit, decimal (kB, MB, GB, TB) or binary
// (KiB, MiB, GiB, TiB), or "none" for 0.
type Bytes int64

// byteUnits are in the order of size, so that "GiB" is tried before "B", with which it also ends.
var byteUnits = []struct {
	name string
	size int64
}{
	{"TiB", 1 << 40},
	{"TB", 1e12},
	{"GiB", 1 << 30},
	{"GB", 1e9},
	{"MiB", 1 << 20},
	{"MB", 1e6},
	{"KiB", 1 << 10},
	{"kB", 1e3},
	{"B", 1},
	{"", 1},
}

// UnmarshalText implements encoding.TextUnmarshaler. It reads "4GiB", "512MB", "1.5 GB", "1000000" or "none".
func (b *Bytes) UnmarshalText(text []byte) error {
	lower := strings.ToLower(strings.TrimSpace(string(text)))
	if lower == "none" {
		*b = 0
		return nil
	}
	for _, unit := range byteUnits {
		text, ok := strings.CutSuffix(lower, strings.ToLower(unit.name))
		if !ok {
			continue
		}
		x, err := number.Parse(strings.TrimSpace(text), 64)
		x *= float64(unit.size)
		if err != nil || !(x == 0 || x >= 1 && x < math.MaxInt64) {
			break
		}
		*b = Bytes(math.Round(x))
		return nil
	}
	return errors.New("must be an amount of memory as in 4GiB or 512MB, or none")
}

// String writes the amount so that UnmarshalText reads the same amount: in the largest unit that divides it.
func (b Bytes) String() string {
	if b == 0 {
		return "none"
	}
	for _, unit := range byteUnits {
		if int64(b)%unit.size == 0 {
			return fmt.Sprintf("%d%s", int64(b)/unit.size, unit.name)
		}
	}
	panic("one byte divides every amount")
}

// RoundedUp is Rounded upwards, so that as a limit it suffices for the amount.
func (b Bytes) RoundedUp() string {
	unit := Bytes(1)
	for b >= 1000*unit && unit < 1e12 {
		unit *= 1000
	}
	if unit > 1 && b < 10*unit {
		unit /= 10 // the unit's decimal
	}
	return ((b + unit - 1) / unit * unit).Rounded()
}

// Rounded writes the amount with the digits that matter to a person, in a decimal unit that suits it.
func (b Bytes) Rounded() string {
	x, unit := float64(b), "B"
	for _, next := range []string{"kB", "MB", "GB", "TB"} {
		if x < 1000 {
			break
		}
		x, unit = x/1000, next
	}
	if x < 10 && unit != "B" {
		return fmt.Sprintf("%.1f %s", x, unit)
	}
	return fmt.Sprintf("%.0f %s", x, unit)
}
