#!/usr/bin/env escript
%% The independent consumer of RabbitMQ: the Erlang client that comes with it. It shares nothing with the relay but the
%% broker. It declares what an owner of queues would: the topic exchange `payments`, and a quorum queue that gets all of
%% it. Then it writes a line for each message, of the same columns as Kafka's console consumer: where it was read, its
%% number there, headers, key, value.
%%
%% ERL_LIBS must name RabbitMQ's plugins, AMQP_URL the broker. The tuples are AMQP's methods, by their order in the
%% client's records.
-mode(compile).

-define(NAME, <<"payments">>).

main([]) ->
    %% It would write to standard output, where only messages belong.
    ok = logger:remove_handler(default),
    ok = io:setopts([{encoding, latin1}]),
    {ok, _} = application:ensure_all_started(amqp_client),
    {ok, Parameters} = amqp_uri:parse(os:getenv("AMQP_URL")),
    {ok, Connection} = amqp_connection:start(Parameters),
    {ok, Channel} = amqp_connection:open_channel(Connection),
    Quorum = [{<<"x-queue-type">>, longstr, <<"quorum">>}],
    call(Channel, {'exchange.declare', 0, ?NAME, <<"topic">>, false, true, false, false, false, []}),
    call(Channel, {'queue.declare', 0, ?NAME, false, true, false, false, false, Quorum}),
    call(Channel, {'queue.bind', 0, ?NAME, ?NAME, <<"#">>, false, []}),
    call(Channel, {'basic.qos', 0, 1000, false}),
    Consume = {'basic.consume', 0, ?NAME, <<>>, false, false, false, false, []},
    amqp_channel:subscribe(Channel, Consume, self()),
    erlang:monitor(process, Connection),
    read(Channel, 0).

call(Channel, Method) -> {_, _} = {ok, amqp_channel:call(Channel, Method)}.

read(Channel, N) ->
    receive
        {{'basic.deliver', _, Delivery, _, _, Key}, {amqp_msg, Properties, Body}} ->
            Headers = headers(Properties),
            Line = [[<<"Queue:">>, ?NAME], [<<"Offset:">>, integer_to_binary(N)], list(Properties, Key, Headers),
                    proplists:get_value(<<"aggregateId">>, Headers, <<"NULL">>), Body],
            ok = file:write(standard_io, [lists:join($\t, Line), $\n]),
            amqp_channel:cast(Channel, {'basic.ack', Delivery, false}),
            read(Channel, N + 1);
        {'DOWN', _, process, _, Reason} ->
            io:format(standard_error, "the connection ended: ~p~n", [Reason]),
            halt(1);
        _ -> read(Channel, N)
    end.

headers(Properties) ->
    [{Name, Value} || {Name, _, Value} <- nothing_as([], element(4, Properties)), is_binary(Value)].

%% The headers, and of the properties those that the relay sets from the row.
list(Properties, Key, Headers) ->
    All = Headers ++ [{<<"message_id">>, nothing_as(<<>>, element(10, Properties))},
                      {<<"type">>, nothing_as(<<>>, element(12, Properties))}, {<<"routing_key">>, Key}],
    lists:join($,, [[Name, $:, Value] || {Name, Value} <- All]).

nothing_as(Default, undefined) -> Default;
nothing_as(_, Value) -> Value.
