/// The bounds of the client, each with its unit and what happens beyond it.
enum Limits {
    /// Numbers in streams are below this one.
    static let sequenceEnd: UInt64 = 1 << 62

    /// Bytes of a control line with its end: a server that sends a longer one is left. Servers bound their clients' lines to 4,096; the
    /// longest that one sends is INFO, with the addresses of all servers in it.
    static let lineBytesMax = 64 << 10

    /// Bytes of a message, headers and all: a server that announces more is left. It is the most that `max_payload` can be set to.
    static let messageBytesMax = 64 << 20

    /// Fields of a message's headers: more are refused. Bytes: `messageBytesMax`.
    static let headerFieldsMax = 256

    /// Bytes of a subject: longer ones are none. A server's control line has to hold the subject, a reply subject and the sizes.
    static let subjectBytesMax = 3_500

    /// Bytes that wait for a server that does not read; what would go beyond them is not taken.
    static let outputBytesMax = 16 << 20

    /// Bytes of an emptied buffer that are kept.
    static let keptBufferBytesMax = 1 << 20

    /// Servers that are known, those that were named among them: of those that a server tells about no more are taken.
    /// Bytes: 1,000 each at most.
    static let serversMax = 64

    /// Requests that wait for their answer; more are not taken. Bytes: `subjectBytesMax` each at most.
    static let requestsMax = 4_096

    /// Milliseconds from the first attempt to connect until the server has answered the first PING; then the next server has its turn.
    static let joinMillisecondsMax: UInt64 = 5_000

    /// Bytes that are shown of what comes where a server's INFO should.
    static let shownGreetingBytesMax = 60

    /// Milliseconds until a subscription that the server has refused is tried again.
    static let refusedSubscriptionMilliseconds: UInt64 = 20_000

    /// Milliseconds of silence after which a server is asked whether it is there.
    static let pingMilliseconds: UInt64 = 10_000

    /// Milliseconds that it may take to answer that.
    static let pongMillisecondsMax: UInt64 = 5_000

    /// The shortest pause before all servers are tried again, in milliseconds.
    static let pauseMillisecondsMin: UInt64 = 100

    /// The longest one.
    static let pauseMillisecondsMax: UInt64 = 5_000

    /// Milliseconds that JetStream has to answer who follows a stream; then it is asked anew.
    static let followAnswerMillisecondsMax: UInt64 = 5_000

    /// Milliseconds that a consumer has to be made in, the first time: a server may have been chosen for it that has just died, which the others
    /// notice after minutes. Each further attempt has twice as many, up to the same as any answer.
    static let followConsumerMillisecondsMin: UInt64 = 250

    /// Milliseconds between two words of a consumer that has nothing to give.
    static let followHeartbeatMilliseconds: UInt64 = 1_000

    /// Milliseconds of a consumer's silence after which another one is made.
    static let followSilenceMillisecondsMax: UInt64 = 3_000

    /// Milliseconds that a consumer waits for records until it is asked again.
    static let followWaitMilliseconds: UInt64 = 30_000

    /// How long a stream that was there before has to be missing until it is made anew, in milliseconds.
    static let followMissingMilliseconds: UInt64 = 10_000

    /// Milliseconds of pause after what failed.
    static let followRetryMilliseconds: UInt64 = 500
}
