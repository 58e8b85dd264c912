/// The bounds of what services say of logins: each with its unit and what happens beyond it.
enum Limits {
    /// Bytes of an answer; a longer one is a failure of the service.
    static let answerBytesMax = 64 << 10

    /// Topics that a database gives for a user and what it may do with them; more are a failure of the database. Bytes:
    /// 65,535 each.
    static let topicsOfUserMax = 1000

    /// Attributes that a login brings along; an answer with more is a failure of the service. Bytes: `answerBytesMax`.
    static let attributesMax = 100
}
