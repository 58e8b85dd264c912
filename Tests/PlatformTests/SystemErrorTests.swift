import Platform
import Testing

@Suite struct SystemErrorTests {
    @Test func `an error reads as perror writes it`() {
        #expect(SystemError(errno: 98, operation: "bind").description == "bind: Address already in use")
    }
}
