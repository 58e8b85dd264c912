internal import HTTP
internal import JSON

extension Control {
    /// `ctl may`: whether somebody may do something, and which line or role decides it.
    ///
    /// - Parameter query: `action`, `topic`, `username`, `clientid`, `address`, `listener` of the API.
    /// - Returns: whether they may.
    public func may(_ query: [(String, String?)]) throws(ControlError) -> Bool {
        let answer = try ask(ControlRequest(.get, ["may"], query: query))
        let value = try value(answer)
        if output.isJSON { output.put(answer.body) } else { output.sayForeign(value["reason"].cell) }
        return value["allowed"].boolean == true
    }
}
