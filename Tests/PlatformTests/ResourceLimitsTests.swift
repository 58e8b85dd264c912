import Glibc
import Platform
import Testing

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
