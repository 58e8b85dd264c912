import Glibc
import MQTTCodec
import Testing

@testable import Security

@Suite struct PasswordFileTests {
    private let weak = PasswordRecipe.pbkdf2(iterations: 1)

    @Test func `users log in with their own password only`() throws {
        let file = try PasswordFile(
            Array("# users\nno colon\n anna : \(hash("a")) \r\nbob:\(hash("b")):rest\n\n#carl:\(hash("c"))\n".utf8), file: "users")
        #expect(file.count == 2)
        #expect(
            file.warnings.map(\.description) == [
                "users:2: the line has no colon between a user and a hash, and is passed over. Set the user's password: martlet passwd users USER."
            ])
        #expect(file.matches(user: "anna", password: Array("a".utf8)) == true)
        #expect(file.matches(user: "anna", password: Array("b".utf8)) == false)
        #expect(file.matches(user: "carl", password: Array("c".utf8)) == false)
        #expect(file.matches(user: "", password: []) == false)
    }

    @Test func `all that is wrong is told at once, with file and line, and no password`() throws {
        let error = try #require(throws: SecurityFileError.self) {
            try PasswordFile(
                Array(
                    "anna:\(hash("a"))\nanna:\(hash("b"))\n:\(hash("c"))\nbob:hunter2\ncarl:\ndora:$9$x\nemil:SCRAM-SHA-256$4096:a$b:c"
                        .utf8),
                file: "users")
        }
        #expect(
            error.problems.map(\.description) == [
                "users:2: the user anna is already in line 1.",
                "users:3: the user's name is empty.",
                "users:4: the hash of the password of bob is not a hash: it seems to be the password itself; \"martlet passwd -U users\" "
                    + "hashes such files.",
                "users:5: the hash of the password of carl is missing. Set it: martlet passwd users carl.",
                "users:6: the hash of the password of dora is of the unknown type $9$; expected $6$, $7$, $2b$ or $argon2id$. Set it again: martlet passwd users dora.",
                "users:7: this is an entry for SCRAM; name its file with martlet_scram_file.",
            ])
    }

    @Test func `a user that is not there costs as much as most that are`() throws {
        let dear = PasswordRecipe.pbkdf2(iterations: 60_000)
        let text = try (1...3).map { "user\($0):\(try #require(dear.hash(of: [1])).text)" }.joined(separator: "\n")
        let file = try PasswordFile(Array("\(text)\ncheap:\(hash("x"))\n".utf8), file: "users")
        let known = cost { _ = file.matches(user: "user1", password: [2]) }
        let unknown = cost { _ = file.matches(user: "nobody", password: [2]) }
        let cheap = cost { _ = file.matches(user: "cheap", password: [2]) }
        #expect(unknown > cheap * 10)
        #expect(unknown < known * 20 && known < unknown * 20)
    }

    /// The processor's time, in nanoseconds, that this thread spends: what others do meanwhile is not in it.
    private func cost(of work: () -> Void) -> Int {
        let before = threadNanoseconds()
        work()
        return threadNanoseconds() - before
    }

    private func threadNanoseconds() -> Int {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return time.tv_sec * 1_000_000_000 + time.tv_nsec
    }

    private func hash(_ password: String) -> String { weak.hash(of: Array(password.utf8))?.text ?? "" }
}
