#!/usr/bin/env bash
# title: the contract compares modification times: touches the file
# class: B
# fixtures: stamp

touch -d 2099-01-01 out.txt
