import Glibc
import Testing

@testable import Platform

@Suite struct SystemErrorTests {
    @Test func `an error reads as perror writes it`() {
        #expect(SystemError(errno: 98, operation: "bind").description == "bind: Address already in use")
    }
}

@Suite struct ResourceLimitsTests {
    /// In a process of its own: the limit is the whole process's.
    @Test func `the soft limit on descriptors rises to the hard one`() async {
        await #expect(processExitsWith: .success) {
            var limit = rlimit()
            let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
            getrlimit(resource, &limit)
            limit.rlim_cur = 100
            setrlimit(resource, &limit)
            #expect(ResourceLimits.raiseFileDescriptors() == Int(clamping: limit.rlim_max))
            getrlimit(resource, &limit)
            #expect(limit.rlim_cur == limit.rlim_max)
            #expect(ResourceLimits.fileDescriptors == Int(clamping: limit.rlim_max))
        }
    }

    @Test func `free room is told of what is there, and of nothing else`() throws {
        #expect(try #require(ResourceLimits.freeBytes(at: "/")) > 0)
        #expect(ResourceLimits.freeBytes(at: "/nowhere/at/all") == nil)
    }
}

@Suite struct KernelRandomNumbersTests {
    @Test func `each number is given once, also to who has another source`() {
        var (first, second) = (KernelRandomNumbers(), KernelRandomNumbers())
        let count = KernelRandomNumbers.blockCount * 10 + 1
        let numbers = (0..<count).flatMap { _ in [first.next(), second.next()] }
        #expect(Set(numbers).count == numbers.count)
    }
}
