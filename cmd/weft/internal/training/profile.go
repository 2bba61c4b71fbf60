package training

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"

	"weft/cmd/weft/internal/cli"
	"weft/internal/refusal"
)

// profile begins the CPU profile that --cpuprofile asks for, on the first rank. stop ends it.
func (t *trainCommand) profile(r cli.Ranks) (stop func(), err error) {
	stop = func() {}
	if t.cpuProfile == "" {
		return stop, nil
	}
	err = r.OnFirst(func() error {
		if err := cli.CheckFile("cpuprofile", t.cpuProfile); err != nil {
			return err
		}
		file, err := os.Create(t.cpuProfile)
		if err != nil {
			return refusal.Errorf("--cpuprofile %s: %w; name another file", t.cpuProfile, err)
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return errors.Join(err, file.Close())
		}
		stop = func() {
			pprof.StopCPUProfile()
			if err := file.Close(); err != nil {
				fmt.Fprintf(os.Stderr, "weft: warning: --cpuprofile %s: %v\n", t.cpuProfile, err)
			}
		}
		return nil
	})
	return stop, err
}
