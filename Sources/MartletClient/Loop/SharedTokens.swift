internal import ClientCore

/// Messages that are for several subscriptions: they are acknowledged when the last of those has done so.
struct SharedTokens {
    private var rest: [AcknowledgementToken: (count: Int, reason: ReasonCode)] = [:]

    mutating func share(_ token: AcknowledgementToken, among count: Int) { rest[token] = (count, .success) }

    /// One has settled it. Returns what the server is told, if it was the last: the first error, or success.
    mutating func settle(_ token: AcknowledgementToken, _ reason: ReasonCode) -> ReasonCode? {
        guard let (count, worst) = rest[token] else { return reason }
        let now = worst.isError ? worst : reason
        guard count > 1 else {
            rest[token] = nil
            return now
        }
        rest[token] = (count - 1, now)
        return nil
    }
}
