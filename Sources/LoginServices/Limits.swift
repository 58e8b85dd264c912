/// The bounds of what services say of logins: each with its unit and what happens beyond it.
enum Limits {
    /// Bytes of an answer; a longer one is a failure of the service.
    static let answerBytesMax = 64 << 10

    /// Topics that a database gives for a user and what it may do with them; more are a failure of the database. Bytes:
    /// 65,535 each.
    static let topicsOfUserMax = 1000

    /// Attributes that a login brings along; an answer with more is a failure of the service. Bytes: `answerBytesMax`.
    static let attributesMax = 100

    /// Bytes that a directory or a database answers to one login; more are a failure of it.
    static let serverAnswerBytesMax = 1 << 20

    /// Bytes of an answer that are read and still stand in front of those that are not.
    static let serverBytesKeptMax = 64 << 10

    /// Failures of a directory or a database in a row after which nobody asks it for a while.
    static let serverFailuresMax = 10

    /// Milliseconds of that while.
    static let serverPauseMilliseconds: UInt64 = 10_000

    /// Milliseconds for which a connection to a directory or a database is kept that nobody needs.
    static let serverIdleMilliseconds: UInt64 = 30_000

    /// Milliseconds until a connection to a directory or a database stands, with all addresses of its name.
    static let serverConnectMilliseconds: UInt64 = 3000

    /// Milliseconds after which who waits for such a server looks whether the broker ends.
    static let serverWaitMilliseconds: UInt64 = 200
}
