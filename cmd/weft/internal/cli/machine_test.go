package cli

import (
	"os"
	"testing"

	"weft/cmd/weft/internal/ui/uitest"
	"weft/internal/assert"
)

// TestControlGroups: the smallest limit of a group and of those around it holds, in either version.
func TestControlGroups(t *testing.T) {
	for name, c := range map[string]struct {
		files  map[string]string
		memory int64
		cores  float64
	}{
		"no control groups": {nil, 0, 0},
		"version 2, a container": {map[string]string{
			"proc/self/mountinfo": uitest.MountVersion2, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "1048576000\n", "sys/fs/cgroup/cpu.max": "150000 100000\n",
		}, 1048576000, 1.5},
		"version 2, a Slurm job": {map[string]string{
			"proc/self/mountinfo": uitest.MountVersion2, "proc/self/cgroup": "0::/slurm/job_7/step_0\n",
			"sys/fs/cgroup/slurm/job_7/step_0/memory.max": "max\n",
			"sys/fs/cgroup/slurm/job_7/step_0/cpu.max":    "max 100000\n",
			"sys/fs/cgroup/slurm/job_7/memory.max":        "4000000000\n",
			"sys/fs/cgroup/slurm/job_7/cpu.max":           "400000 100000\n",
			"sys/fs/cgroup/slurm/memory.max":              "9000000000\n",
			"sys/fs/cgroup/slurm/cpu.max":                 "max 100000\n",
		}, 4000000000, 4},
		"version 2, no limits": {map[string]string{
			"proc/self/mountinfo": uitest.MountVersion2, "proc/self/cgroup": "0::/user\n",
			"sys/fs/cgroup/user/memory.max": "max\n", "sys/fs/cgroup/user/cpu.max": "max 100000\n",
		}, 0, 0},
		"version 1 beside 2": {map[string]string{
			"proc/self/mountinfo": uitest.MountVersion1 +
				"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"proc/self/cgroup": "4:memory:/job\n1:cpu,cpuacct:/job\n0::/other\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "2000000000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
			"sys/fs/cgroup/cpu/job/cpu.cfs_quota_us":         "50000\n",
			"sys/fs/cgroup/cpu/job/cpu.cfs_period_us":        "100000\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":             "-1\n",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us":            "100000\n",
		}, 2000000000, 0.5},
		"version 1, a container that shows its own group": {map[string]string{
			"proc/self/mountinfo": "35 31 0:32 /docker/a1 /sys/fs/cgroup/memory ro " +
				"- cgroup cgroup rw,memory\n",
			"proc/self/cgroup":                           "4:memory:/docker/a1\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "3000000000\n",
		}, 3000000000, 0},
	} {
		root := uitest.System(t, c.files)
		assert.Equal(t, c.memory, GroupMemoryLimit(root), "%s: memory limit", name)
		assert.Equal(t, c.cores, GroupQuota(root), "%s: a quota", name)
	}
}

func TestParseLimits(t *testing.T) {
	for text, want := range map[string]int64{
		"4096\n": 4096, "max\n": 0, "9223372036854771712": 0, "": 0,
		"-1": 0, "12 kB": 0,
	} {
		if got, ok := parseMemoryLimit(text); ok != (want > 0) || ok && got != want {
			t.Errorf("memory limit %q: %d, %v", text, got, ok)
		}
	}
	for text, want := range map[string]float64{
		"200000 100000\n": 2, "50000 100000": 0.5, "max 100000": 0, "-1 100000": 0, "1 0": 0, "100000": 0,
		"": 0, " ": 0, "1 2 3": 0,
	} {
		if got, ok := parseQuota(text); ok != (want > 0) || got != want {
			t.Errorf("quota %q: %v, %v", text, got, ok)
		}
	}
}

func TestPeakResident(t *testing.T) {
	if peak := PeakResident(); peak < 1<<20 || peak > 1<<36 {
		t.Errorf("%d bytes", peak)
	}
	if _, err := os.Stat("/proc/meminfo"); err == nil && ProcBytes("/proc/meminfo", "MemTotal") < 1<<26 {
		t.Error("no memory was found")
	}
}
