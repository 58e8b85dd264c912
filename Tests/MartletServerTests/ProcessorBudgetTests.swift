import Glibc
import Testing

@testable import MartletServer

@Suite struct ProcessorBudgetTests {
    /// The files of a machine, as far as they tell of control groups.
    private final class FakeMachine {
        private let directory: TemporaryDirectory
        private var made: [String] = []

        /// - Parameters:
        ///   - groups: the process's, as `/proc/self/cgroup` has them.
        ///   - mounts: as `/proc/self/mountinfo` has them.
        init(groups: String, mounts: String, files: [String: String]) throws {
            directory = try TemporaryDirectory()
            for (path, text) in files.merging(
                ["proc/self/cgroup": groups, "proc/self/mountinfo": mounts], uniquingKeysWith: { $1 })
            {
                try write(text, to: path)
            }
        }

        deinit {
            for path in made.reversed() where rmdir(path) != 0 { unlink(path) }
        }

        var quota: Double? { ProcessorBudget(root: directory.path).quota }

        private func write(_ text: String, to path: String) throws {
            var place = directory.path
            let words = path.split(separator: "/")
            for word in words.dropLast() {
                place += "/\(word)"
                if mkdir(place, 0o700) == 0 { made.append(place) }
            }
            place += "/\(words[words.count - 1])"
            let file = try #require(fopen(place, "w"))
            fputs(text, file)
            fclose(file)
            made.append(place)
        }
    }

    private static let second = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    private static let first =
        "22 1 8:1 / / rw - ext4 /dev/root rw\n33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        + "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"

    @Test func `a container of its own has its quota at the root of what it sees`() throws {
        let machine = try FakeMachine(
            groups: "0::/\n", mounts: Self.second, files: ["sys/fs/cgroup/cpu.max": "150000 100000\n"])
        #expect(machine.quota == 1.5)
    }

    @Test func `the smallest quota along the path counts`() throws {
        let machine = try FakeMachine(
            groups: "0::/system.slice/martlet.service/loops\n", mounts: Self.second,
            files: [
                "sys/fs/cgroup/system.slice/cpu.max": "400000 100000\n",
                "sys/fs/cgroup/system.slice/martlet.service/cpu.max": "250000 100000\n",
                "sys/fs/cgroup/system.slice/martlet.service/loops/cpu.max": "max 100000\n",
                "sys/fs/cgroup/user.slice/cpu.max": "10000 100000\n",
            ])
        #expect(machine.quota == 2.5)
    }

    @Test func `no limit is none, and so is what cannot be read`() throws {
        let unlimited = try FakeMachine(
            groups: "0::/a\n", mounts: Self.second, files: ["sys/fs/cgroup/a/cpu.max": "max 100000\n"])
        #expect(unlimited.quota == nil)
        let garbled = try FakeMachine(groups: "0::/a\n", mounts: Self.second, files: ["sys/fs/cgroup/a/cpu.max": "a lot\n"])
        #expect(garbled.quota == nil)
        let zero = try FakeMachine(groups: "0::/a\n", mounts: Self.second, files: ["sys/fs/cgroup/a/cpu.max": "0 0\n"])
        #expect(zero.quota == nil)
        #expect(try FakeMachine(groups: "", mounts: "", files: [:]).quota == nil)
        #expect(try FakeMachine(groups: "::\n0:x\n", mounts: "1 2 -\n- - - -\n", files: [:]).quota == nil)
        #expect(ProcessorBudget(root: "/nowhere at all").quota == nil)
    }

    @Test func `version 1 has a quota and a period`() throws {
        let machine = try FakeMachine(
            groups: "5:cpuset:/elsewhere\n4:cpu,cpuacct:/docker/abc\n0::/\n", mounts: Self.first,
            files: [
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "320000\n",
                "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000\n",
            ])
        #expect(machine.quota == 3.2)
    }

    @Test func `a container that shares the machine's view sees its own group at the mount's root`() throws {
        let mounts =
            "33 31 0:30 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n34 31 0:40 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        let files = ["sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"]
        #expect(try FakeMachine(groups: "4:cpu:/docker/abc\n0::/docker/abc\n", mounts: mounts, files: files).quota == 0.5)
        #expect(try FakeMachine(groups: "4:cpu:/../other\n", mounts: mounts, files: files).quota == 0.5)
    }

    @Test(
        arguments: [
            // Affinity alone.
            (1, nil, 1, 1), (2, nil, 2, 1), (3, nil, 3, 3), (200, nil, 200, 64),
            // The quota is rounded up.
            (8, 0.2, 1, 1), (8, 1.5, 2, 1), (8, 2.0, 2, 1), (8, 2.01, 3, 3), (8, 7.5, 8, 8),
            // It never adds processors.
            (4, 16, 4, 4), (1, 1e300, 1, 1),
        ] as [(Int, Double?, Int, Int)])
    func `there is a loop for each usable processor, but one on two`(
        _ processors: Int, _ quota: Double?, _ usable: Int, _ loops: Int
    ) {
        let budget = ProcessorBudget(processors: processors, quota: quota)
        #expect(budget.usable == usable)
        #expect(budget.loopCount(asked: nil) == loops)
        #expect(budget.loopCount(asked: 0) == loops)
        #expect((budget.remark(asked: nil) == nil) == (usable == processors))
    }

    @Test func `the operator's choice counts, and needs no remark`() {
        let budget = ProcessorBudget(processors: 8, quota: 1.5)
        #expect(budget.loopCount(asked: 5) == 5)
        #expect(budget.loopCount(asked: 1000) == 64)
        #expect(budget.remark(asked: 5) == nil)
        #expect(
            budget.remark(asked: nil)
                == "The control group may use 1.50 of 8 processors: the number of event loops is chosen for 2.")
    }
}
