package setting

import (
	"fmt"
	"strconv"
	"strings"

	"weft/parallel/mesh"
)

// Partitions is a number of partitions, of which a worker may hold several. Its text form is the number, or
// "auto" for AutoPartitions.
type Partitions int

// AutoPartitions lets weft train choose the fewest partitions for which memory has room. Options with it do
// not resolve.
const AutoPartitions Partitions = -1

// UnmarshalText implements encoding.TextUnmarshaler. It reads "8" or "auto".
func (p *Partitions) UnmarshalText(text []byte) error {
	if strings.ToLower(string(text)) == Auto {
		*p = AutoPartitions
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 || n > mesh.MaxWorkers {
		return fmt.Errorf("must be a whole number from 0 to %d, or %s", mesh.MaxWorkers, Auto)
	}
	*p = Partitions(n)
	return nil
}

func (p Partitions) String() string {
	if p == AutoPartitions {
		return Auto
	}
	return strconv.Itoa(int(p))
}
